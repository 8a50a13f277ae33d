"""A value function about something else is refused, with the difference named."""

from dataclasses import replace

import pytest
import torch

from metricopt.core.errors import FileFormatError, UnknownNameError
from metricopt.search.transfer import CarriedValue
from metricopt.search.transfer.place import Place
from metricopt.search.transfer.refusals import fitting_kind

PLACE = Place("f1", "max", "labels", "FiLM of 3, seed 0", 2, "rows", "original")
VALUE = CarriedValue(PLACE, torch.zeros(2), torch.zeros(2, 3), torch.zeros(2, 7, 2), torch.zeros(2, 20))


@pytest.mark.parametrize(
    ("kind", "change", "named"),
    [
        ("phi", {"layout": "FiLM of 4, seed 0"}, "'FiLM of 3, seed 0', and here it is 'FiLM of 4, seed 0'"),
        ("predictions", {"on": "scores"}, "views 'labels', and this metric is given 'scores'"),
        ("predictions", {"outputs": 7}, "2 outputs (classes), and here there are 7"),
        ("predictions", {"rows": "others"}, "other rows"),
        ("statistics", {"outputs": 7}, "2 outputs (classes), and here there are 7"),
        ("statistics", {"against": "truth"}, "beside 'original', and here they are beside 'truth'"),
        ("search", {"goal": "min"}, "goal='max', and this one has goal='min'"),
        (None, {"goal": "min"}, "goal='max', and this one has goal='min'"),
    ],
)
def test_the_difference_is_named(kind, change, named):
    value = VALUE if kind is None else VALUE.only(kind)
    with pytest.raises(FileFormatError) as refused:
        fitting_kind(value, replace(PLACE, **change))
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({}, "predictions"),
        ({"rows": "others"}, "phi"),
        ({"rows": "others", "layout": "FiLM of 4, seed 0"}, "statistics"),
        ({"outputs": 7, "layout": "FiLM of 4, seed 0"}, "search"),
    ],
)
def test_without_a_choice_the_kind_that_says_most_and_fits_is_taken(change, kind):
    assert fitting_kind(VALUE, replace(PLACE, **change)) == kind


@pytest.mark.parametrize(("outputs", "fits"), [(1, True), (2, False)])
def test_logits_and_scores_are_one_view_of_a_single_output(outputs, fits):
    there, here = (replace(PLACE, on=on, outputs=outputs) for on in ("logits", "scores"))
    value = replace(VALUE, place=there).only("statistics")
    if fits:
        assert fitting_kind(value, here) == "statistics"
    else:
        with pytest.raises(FileFormatError, match="views 'logits', and this metric is given 'scores'"):
            fitting_kind(value, here)


def test_an_unknown_kind_is_refused():
    with pytest.raises(UnknownNameError, match="ph"):
        VALUE.only("ph")
