"""Figure S3: recall of proposals against plain loops, what the text says, and pictures that are drawn."""

import pytest
import torch

from metricopt_lab.cells import Settings
from metricopt_lab.figures.figure_s3 import plot
from metricopt_lab.figures.figure_s3.experiment import OVERLAPS, WAYS, FigureS3, recall
from metricopt_lab.figures.figure_s3.plot import draw_pictures, draw_recall
from metricopt_lab.figures.figure_s3.text import figure_s3_text


def record(way, seed=0, after=0.9):
    picture = {
        "name": "a", "truth": [[1, 1, 9, 9]], "proposals": [[[1, 1, 9, 9]]] * 2, "detections": [[], [[1, 1, 8, 9]]],
    }  # fmt: skip
    return {
        "scale": "small", "data": "pixel_noise", "method": way, "seed": seed, "overlaps": list(OVERLAPS),
        "recall": [[0.8, 0.7, 0.6, 0.4, 0.1], [after, 0.8, 0.75, 0.4, 0.1]], "ap50": [0.7, 0.85], "pictures": [picture],
        "queries": 6, "seconds": 9.0, "images": 30, "accepted": True,
    }  # fmt: skip


@pytest.mark.parametrize("overlap", OVERLAPS)
def test_recall_is_that_of_plain_loops(overlap):
    draw = torch.Generator().manual_seed(0)

    def boxes(count):
        corner = 20 * torch.rand(count, 2, generator=draw)
        return torch.cat([corner, corner + 5 + 10 * torch.rand(count, 2, generator=draw)], 1)

    found = [{"proposals": boxes(count)} for count in (6, 0, 9)]
    truth = [{"boxes": boxes(count)} for count in (4, 2, 0)]
    hits = 0
    for each, target in zip(found, truth, strict=True):
        for a in target["boxes"].tolist():
            best = 0.0
            for b in each["proposals"].tolist():
                wide, high = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
                shared = max(wide, 0) * max(high, 0)
                both = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared
                best = max(best, shared / both)
            hits += best >= overlap
    assert recall(found, truth, overlap) == pytest.approx(hits / 6)


def test_the_text_says_by_how_much_the_first_stage_is_another():
    text = figure_s3_text([record("optimize"), record("metricopt_pyramid", after=0.8)])
    assert "changes by +.1000 at an overlap of .5 and most, by +.1500, at 0.7." in text
    assert "changes by +.0000 at an overlap of .5" in text
    assert "2 folds" in figure_s3_text([record("optimize", seed) for seed in (0, 1)])


def test_each_fold_is_measured_in_both_ways():
    cells = FigureS3(Settings(seeds=2)).cells()
    assert [(cell.seed, cell.method) for cell in cells] == [(seed, way) for seed in (0, 1) for way in WAYS]


def test_curves_are_drawn_and_pictures_where_the_images_are(tmp_path, monkeypatch):
    draw_recall([record("optimize"), record("metricopt_pyramid")], tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 5000
    monkeypatch.setattr(plot, "has_bccd", lambda: False)
    draw_pictures([record("optimize")], tmp_path / "none.png")
    assert not (tmp_path / "none.png").exists()
    monkeypatch.setattr(plot, "has_bccd", lambda: True)
    monkeypatch.setattr(plot, "_pixels", lambda *_: torch.zeros(12, 12, 3).numpy())
    draw_pictures([record("optimize")], tmp_path / "some.png")
    assert (tmp_path / "some.png").stat().st_size > 5000
