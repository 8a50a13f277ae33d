"""Numbers for TensorBoard, read back by TensorBoard itself."""

import sys
import warnings

import pytest

from metricopt.core.errors import FileFormatError
from metricopt.run.tensorboard import TensorBoardScalars

START = {"event": "start", "metric": {"name": "f1", "goal": "max"}, "settings": {"queries": 3}}
ANSWERS = (0.5, None, 0.75, 0.625)


def read_back(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        log = EventAccumulator(str(folder))
        log.Reload()
    return {tag: [(each.step, each.value) for each in log.Scalars(tag)] for tag in log.Tags()["scalars"]}


def test_answers_best_failures_and_health_over_queries(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    with TensorBoardScalars(tmp_path / "log") as scalars:
        scalars(START)
        for index, value in enumerate(ANSWERS):
            scalars({"event": "query", "index": index, "stage": "value", "value": value})
        scalars({"event": "health", "rank_correlation": 0.25})
        scalars({"event": "accepted", "before": 0.5, "after": 0.75})
    found = read_back(tmp_path / "log")
    assert found == {
        "metric/answer": [(1, 0.5), (3, 0.75), (4, 0.625)],
        "metric/best": [(1, 0.5), (2, 0.5), (3, 0.75), (4, 0.75)],
        "queries/failed": [(1, 0.0), (2, 1.0), (3, 1.0), (4, 1.0)],
        "value/rank_correlation": [(4, 0.25)],
        "held_out/before": [(4, 0.5)],
        "held_out/after": [(4, 0.75)],
    }


def test_without_tensorboard_one_sentence_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ModuleNotFoundError, match=r"tensorboard is not installed.*pip install"):
        TensorBoardScalars(tmp_path)


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    (tmp_path / "file").write_text("")
    with pytest.raises(FileFormatError, match=r"file.*cannot be written"):
        TensorBoardScalars(tmp_path / "file" / "log")
