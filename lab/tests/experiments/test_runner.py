"""Running an experiment: what is there is kept, what fails costs its own cells only, processes change nothing."""

from collections.abc import Iterator, Sequence

import pytest

from metricopt.core.errors import DataError
from metricopt_lab.experiments import EXPERIMENTS, Cell, Experiment, Record, Settings, run
from metricopt_lab.experiments.runner import _measure, _Watcher
from metricopt_lab.experiments.store import Store


class Counted(Experiment):
    """Two methods a seed; one data set cannot be had."""

    scales = ("small",)
    jobs: list[list[str]]

    def cells(self, settings: Settings) -> list[Cell]:
        data = settings.data or ("here",)
        return [
            Cell(settings.scale, name, "plain", seed, "m", method)
            for name in data
            for seed in range(settings.seeds)
            for method in ("a", "b")
        ]

    def measure(self, cells: Sequence[Cell]) -> Iterator[Record]:
        type(self).jobs.append([cell.key for cell in cells])
        for cell in cells:
            if cell.data == "gone":
                raise DataError("no data; expected some: get them")
            yield {"key": cell.key}

    def text(self, records: Sequence[Record]) -> str:
        return str(len(records))


@pytest.fixture
def jobs(monkeypatch):
    monkeypatch.setitem(EXPERIMENTS._components, "counted", Counted)
    monkeypatch.setattr(Counted, "jobs", [], raising=False)
    return Counted.jobs


def test_cells_that_share_a_network_are_measured_together(jobs, tmp_path):
    done = run("counted", Settings(seeds=2), tmp_path)
    assert [len(job) for job in jobs] == [2, 2]
    assert done.measured == 4


def test_a_second_run_measures_nothing_and_gives_the_same(jobs, tmp_path):
    first = run("counted", Settings(seeds=2), tmp_path)
    again = run("counted", Settings(seeds=2), tmp_path, workers=2)
    assert (again.records, again.text, again.measured) == (first.records, first.text, 0)
    assert len(jobs) == 2


def test_only_what_is_missing_is_measured(jobs, tmp_path):
    run("counted", Settings(seeds=1), tmp_path)
    (tmp_path / "cells" / "small-here-plain-seed0-m-b.json").unlink()
    assert run("counted", Settings(seeds=2), tmp_path).measured == 3
    assert jobs[1:] == [["small-here-plain-seed0-m-b"], ["small-here-plain-seed1-m-a", "small-here-plain-seed1-m-b"]]


def test_fresh_measures_everything_again(jobs, tmp_path):
    run("counted", Settings(seeds=1), tmp_path)
    assert run("counted", Settings(seeds=1), tmp_path, fresh=True).measured == 2


def test_data_that_cannot_be_had_cost_their_own_cells_only(jobs, tmp_path):
    with pytest.raises(DataError, match="no data"):
        run("counted", Settings(seeds=1, data=("gone", "here")), tmp_path)
    assert (tmp_path / "table.md").read_text() == "2"


def test_the_watcher_is_told_of_every_cell(jobs, tmp_path):
    told: list[tuple[int, int, str]] = []
    run("counted", Settings(seeds=1), tmp_path, watch=lambda *news: told.append(news))
    assert told == [(1, 2, "small-here-plain-seed0-m-a"), (2, 2, "small-here-plain-seed0-m-b")]


def test_two_processes_give_the_same_numbers_as_one(tmp_path):
    cells = [Cell("smoke", "a9a", "balanced", seed, "f1", "post_shift") for seed in (0, 1)]
    for workers in (1, 2):
        out = tmp_path / str(workers)
        assert _measure("table3", cells, out, workers, _Watcher(cells, Store(out / "cells"), None)) is None
    for cell in cells:
        one, two = (Store(tmp_path / str(workers) / "cells").read(cell.key) for workers in (1, 2))
        assert all(one[name] == two[name] for name in one if name not in ("seconds", "versions"))
