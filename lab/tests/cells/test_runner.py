"""Running an experiment: what is there is kept, what fails costs its own cells only, processes change nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from metricopt.core.errors import BudgetError, DataError
from metricopt_lab.cells import Experiment, Record, ScaledCell, Settings, Store, experiments, run
from metricopt_lab.cells.runner import render


@dataclass(frozen=True)
class Counted(Experiment[ScaledCell, str]):
    """Two methods a seed; one data set cannot be had, and one method fails."""

    seeds: int = 1
    data: tuple[str, ...] = ("here",)
    version: int = 1

    name = "counted"
    jobs = []  # noqa: RUF012

    def cells(self) -> list[ScaledCell]:
        return [
            ScaledCell("small", name, "plain", seed, "m", method)
            for name in self.data
            for seed in range(self.seeds)
            for method in ("a", "b")
        ]

    def ground(self, first: ScaledCell) -> str:
        if first.data == "gone":
            raise DataError("no data; expected some: get them")
        self.jobs.append([])
        return first.data

    def measure(self, ground: str, cell: ScaledCell) -> Record:
        self.jobs[-1].append(cell.key)
        if ground == "odd" and cell.method == "a":
            raise ZeroDivisionError("by nothing")
        return {"square": cell.seed**2}

    def version_of(self, method: str) -> int:
        return self.version if method == "a" else 1

    def text(self, records: Sequence[Record]) -> str:
        return f"# {len(records)}\n\nrecords\n"


@pytest.fixture
def jobs(monkeypatch):
    monkeypatch.setattr(Counted, "jobs", [])
    return Counted.jobs


def test_cells_that_share_a_network_are_measured_together(jobs, tmp_path):
    done = run(Counted(seeds=2), tmp_path)
    assert [len(job) for job in jobs] == [2, 2]
    assert (done.measured, done.failures) == (4, ())


def test_a_record_has_its_cell_its_version_and_where_it_came_from(jobs, tmp_path):
    record = run(Counted(version=7), tmp_path).records[0]
    assert record["key"] == "small-here-plain-seed0-m-a"
    assert (record["version"], record["data"], record["method"], record["square"]) == (7, "here", "a", 0)
    assert {"seconds", "cpu_seconds"} == set(record["took"]) and "torch" in record["versions"]


def test_the_file_is_sorted_and_the_text_says_what_it_is_made_of(jobs, tmp_path):
    done = run(Counted(seeds=2), tmp_path)
    assert list(Store(tmp_path / "counted.jsonl")) == sorted(cell.key for cell in Counted(seeds=2).cells())
    heading, _, origin, *rest = done.text.split("\n")
    assert heading == "# 4" and origin.startswith("Made from 4 records of ") and rest == ["", "records", ""]
    assert (tmp_path / "counted.md").read_text() == done.text


def test_a_second_run_measures_nothing_and_gives_the_same(jobs, tmp_path):
    first = run(Counted(seeds=2), tmp_path)
    again = run(Counted(seeds=2), tmp_path, workers=2)
    assert (again.records, again.text, again.measured) == (first.records, first.text, 0)
    assert len(jobs) == 2


def test_only_what_is_missing_is_measured(jobs, tmp_path):
    run(Counted(), tmp_path)
    path = tmp_path / "counted.jsonl"
    path.write_text("".join(line for line in path.read_text().splitlines(keepends=True) if "m-b" not in line))
    assert run(Counted(seeds=2), tmp_path).measured == 3
    assert jobs[1:] == [["small-here-plain-seed0-m-b"], ["small-here-plain-seed1-m-a", "small-here-plain-seed1-m-b"]]


def test_a_record_of_another_version_is_named_and_measured_again(jobs, tmp_path):
    run(Counted(), tmp_path)
    assert "1 is stale: 1 of a by version 1, now 2" in render(Counted(version=2), tmp_path).text
    again = run(Counted(version=2), tmp_path)
    assert (again.measured, jobs[1:]) == (1, [["small-here-plain-seed0-m-a"]])
    assert "stale" not in again.text


def test_fresh_measures_everything_again(jobs, tmp_path):
    run(Counted(), tmp_path)
    assert run(Counted(), tmp_path, fresh=True).measured == 2


def test_data_that_cannot_be_had_cost_their_own_cells_only(jobs, tmp_path):
    done = run(Counted(data=("gone", "here")), tmp_path)
    assert len(done.records) == 2
    assert [str(failure) for failure in done.failures] == [
        f"small-gone-plain-seed0-m-{method}: no data; expected some: get them" for method in "ab"
    ]


def test_a_method_that_fails_leaves_its_cell_missing_and_the_next_run_tries_it_again(jobs, tmp_path):
    done = run(Counted(data=("odd",)), tmp_path)
    assert [record["method"] for record in done.records] == ["b"]
    assert "by nothing" in str(done.failures[0]) and "Traceback" in str(done.failures[0])
    assert len(run(Counted(data=("odd",)), tmp_path).failures) == 1


def test_what_was_measured_before_an_interruption_is_kept(jobs, tmp_path):
    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(Counted(seeds=2), tmp_path, watch=stop)
    assert run(Counted(seeds=2), tmp_path).measured == 3


def test_the_watcher_is_told_of_every_cell(jobs, tmp_path):
    told: list[tuple[int, int, str]] = []
    run(Counted(), tmp_path, watch=lambda *news: told.append(news))
    assert told == [(1, 2, "small-here-plain-seed0-m-a"), (2, 2, "small-here-plain-seed0-m-b")]


def test_nothing_is_written_where_there_is_nothing_to_show(jobs, tmp_path):
    assert render(Counted(), tmp_path).text == ""
    assert list(tmp_path.iterdir()) == []


def test_less_than_one_worker_is_refused(tmp_path):
    with pytest.raises(BudgetError, match="0 workers were asked for; expected at least 1"):
        run(Counted(), tmp_path, workers=0)


def test_two_processes_give_the_same_numbers_as_one(tmp_path, monkeypatch):
    table3 = experiments()["table3"](Settings(seeds=2, scale="smoke"))
    cells = [ScaledCell("smoke", "a9a", "balanced", seed, "f1", "post_shift") for seed in (0, 1)]
    monkeypatch.setattr(type(table3), "cells", lambda _: cells)
    one, two = (run(table3, tmp_path / str(workers), workers=workers).records for workers in (1, 2))
    apart = ("seconds", "took", "versions")
    assert len(one) == 2
    for mine, theirs in zip(one, two, strict=True):
        assert all(mine[name] == theirs[name] for name in mine if name not in apart)
