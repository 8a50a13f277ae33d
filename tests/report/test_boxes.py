"""Pictures with boxes come from a log, which may be damaged or somebody else's: they are drawn or left out."""

from dataclasses import replace

import pytest

from metricopt.report import page, read_run
from metricopt.report.figures.boxes import box_figure

SOUND = {"jpeg": "AAAA", "width": 40, "height": 30, "boxes": [[1.0, 2.0, 9.0, 8.0, 1, "won"]]}


def shown(folder, *pictures):
    run = read_run(folder)
    return replace(run, accepted={**run.accepted, "changes": {**run.accepted["changes"], "pictures": list(pictures)}})


def test_a_picture_is_drawn_with_its_boxes(folder):
    figure = box_figure(shown(folder, SOUND))
    assert "1 of their true boxes won" in figure.reading and "base64,AAAA" in figure.draw(600.0)


def test_what_a_picture_says_cannot_leave_its_attribute(folder):
    loud = {**SOUND, "jpeg": '"/><script>alert(1)</script>'}
    assert "<script>alert" not in page(shown(folder, loud))


@pytest.mark.parametrize(
    "change",
    [
        {"jpeg": None}, {"width": "40"}, {"width": 0}, {"height": float("nan")}, {"height": 10**400}, {"boxes": None},
        {"boxes": [[1, 2, 3]]}, {"boxes": [["a", 2, 3, 4, 1, "won"]]},
    ],
)  # fmt: skip
def test_pictures_that_cannot_be_drawn_are_left_out(folder, change):
    assert box_figure(shown(folder, {**SOUND, **change}, None, "x")) is None


def test_a_box_of_no_known_kind_is_not_drawn(folder):
    strange = {**SOUND, "boxes": [[1, 2, 9, 8, 1, ["won"]], [1, 2, 9, 8, 1, "<b>"]]}
    assert "<rect" not in box_figure(shown(folder, strange)).draw(600.0)
