import pytest

from metricopt.core.errors import DataError
from metricopt_lab.cells import Settings
from metricopt_lab.data.tiny_imagenet import tiny_imagenet
from metricopt_lab.tables.table_s1.experiment import METHODS, TableS1
from metricopt_lab.tables.table_s1.text import PUBLISHED, table_s1_text


def record(method: str, seed: int, metric: str, top1: float, top5: float) -> dict:
    return {
        "scale": "small", "seed": seed, "metric": metric, "method": method, "test_top1": top1, "test_top5": top5,
        "queries": 10, "seconds": 2.0, "problem": "made up",
    }  # fmt: skip


def test_each_accuracy_is_of_the_row_that_improved_it_and_gains_are_paired():
    records = [
        *(record("pretrained", seed, metric, 0.2 + seed / 10, 0.5) for seed in (0, 1) for metric in ("top1", "top5")),
        *(record("metricopt_learned", seed, "top1", 0.25 + seed / 10, 0.4) for seed in (0, 1)),
        *(record("metricopt_learned", seed, "top5", 0.1, 0.52) for seed in (0, 1)),
    ]
    line = next(line for line in table_s1_text(records).splitlines() if "metricopt_learned" in line)
    assert [cell.strip() for cell in line.split("|")[3:7]] == [
        "30.00 ± 7.07",
        "+5.00 ± 0.00",
        "52.00 ± 0.00",
        "+2.00 ± 0.00",
    ]


def test_published_figures_stand_beside_ours_at_another_scale():
    text = table_s1_text([record("pretrained", 0, "top1", 0.2, 0.5)])
    assert "scale small (not the paper's), 1 seed" in text
    assert all(name in text and top1 in text and top5 in text for name, top1, top5 in PUBLISHED)


def test_every_method_is_measured_for_both_metrics():
    assert len({cell.key for cell in TableS1(Settings(seeds=2)).cells()}) == 2 * 2 * len(METHODS)


def test_missing_images_are_said_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("METRICOPT_DATA", str(tmp_path))
    with pytest.raises(DataError, match="is not in the folder METRICOPT_DATA"):
        tiny_imagenet()


def test_damaged_images_are_said_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("METRICOPT_DATA", str(tmp_path))
    (tmp_path / "tinyimagenet").mkdir()
    (tmp_path / "tinyimagenet" / "tinyimagenet64.npz").write_bytes(b"no archive")
    with pytest.raises(DataError, match="has the SHA-256"):
        tiny_imagenet()
