"""A metric within parts: every query has its own part's gallery, other classes are a gallery too, calls are counted."""

import pytest
import torch

from metricopt.core.errors import MetricError
from metricopt.metrics import map_at_r, recall_at_k
from metricopt.metrics.traffic import attempts_of, calls_beyond
from metricopt.metrics.within_parts import as_a_whole, within_parts

DRAW = torch.Generator().manual_seed(0)
CLASSES = torch.arange(12).repeat_interleave(4)
CLASSES = CLASSES[torch.randperm(len(CLASSES), generator=DRAW)]
PARTS = CLASSES % 3
ROWS = [(part == PARTS).nonzero()[:, 0] for part in range(3)]
EMBEDDINGS = torch.randn(2, len(CLASSES), 3, generator=DRAW) + 0.5 * CLASSES[:, None]


@pytest.mark.parametrize("metric", [recall_at_k(1), recall_at_k((1, 5), distance="euclidean"), map_at_r()])
def test_the_value_is_the_mean_over_parts_of_the_metric_in_each(metric):
    found = within_parts(metric, CLASSES, PARTS).values(EMBEDDINGS, CLASSES)
    for member, value in zip(EMBEDDINGS, found.tolist(), strict=True):
        each = [metric.value(member[rows], CLASSES[rows]) for rows in ROWS]
        assert value == pytest.approx(sum(each) / 3)  # parts of equal size


def test_resamples_are_of_classes_in_the_galleries_of_their_parts():
    by_class = within_parts(recall_at_k(1), CLASSES, PARTS).by_class(EMBEDDINGS[0], CLASSES)
    own = recall_at_k(1).by_class(EMBEDDINGS[0][ROWS[2]], CLASSES[ROWS[2]])
    assert by_class.sums[2::3].tolist() == own.sums.tolist() and len(by_class.sums) == 12


def test_classes_without_a_part_are_one_gallery_as_of_the_metric_itself():
    metric = recall_at_k(1)
    parted = within_parts(metric, CLASSES, PARTS)
    assert parted.value(EMBEDDINGS[0], CLASSES + 50) == metric.value(EMBEDDINGS[0], CLASSES)
    assert as_a_whole(parted) is metric is as_a_whole(metric)


def test_queries_and_items_that_groups_tell_apart_stay_so():
    roles = torch.arange(len(CLASSES)) % 3
    metric = recall_at_k(1, separate=True)
    found = within_parts(metric, CLASSES, PARTS).by_class(EMBEDDINGS[0], CLASSES, roles)
    each = [metric.by_class(EMBEDDINGS[0][rows], CLASSES[rows], roles[rows]) for rows in ROWS]
    assert float(found.sums.sum()) == sum(float(one.sums.sum()) for one in each)
    assert float(found.counts.sum()) == sum(float(one.counts.sum()) for one in each)


def test_each_part_is_a_call():
    parted = within_parts(recall_at_k(1), CLASSES, PARTS)
    parted.values(EMBEDDINGS, CLASSES)
    parted.by_class(EMBEDDINGS[0], CLASSES)
    assert calls_beyond([parted]) == 3 * 2 and attempts_of(parted) == 3


def test_a_part_too_small_for_k_is_told():
    with pytest.raises(MetricError, match="k is 16, but the gallery has 15 items beside the query"):
        within_parts(recall_at_k(16), CLASSES, PARTS).resampling.check(CLASSES, None, name="recall@16", data="a fold")
