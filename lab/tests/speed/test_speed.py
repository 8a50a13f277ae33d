import json
import subprocess
import sys
from dataclasses import asdict

import pytest
from typer.testing import CliRunner

from metricopt.cli.app import app
from metricopt.core.errors import FileFormatError, UnknownNameError
from metricopt_lab.cells import Store
from metricopt_lab.speed import FIGURES, Effort, Figure, measure_speed, page
from metricopt_lab.speed.timing import exponent, interleaved

FIGURE = Figure("a", "guided / plain", 1.1, 1.0, 1.2, 5, target=1.15)


class Clock:
    """A clock that only the work moves."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_work_is_done_in_turn_and_each_call_is_timed():
    clock, order = Clock(), []

    def work(name, seconds):
        def call():
            order.append(name)
            clock.now += seconds

        return call

    taken = interleaved({"a": work("a", 2.0), "b": work("b", 3.0)}, rounds=3, each=2, warm_up=1, clock=clock)
    assert {name: seconds.tolist() for name, seconds in taken.items()} == {"a": [2.0] * 3, "b": [3.0] * 3}
    assert order == ["a", "b"] + ["a", "a", "b", "b"] * 3


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_the_exponent_is_that_of_the_larger_sizes(power):
    sizes = [1, 10, 100, 1000, 10_000]
    seconds = [0.7 * max(size, 100) ** power for size in sizes]
    assert exponent(sizes, seconds) == pytest.approx(power)


def test_peak_memory_sees_what_was_given_back_in_the_meantime():
    # In a fresh process: one that has run thousands of tests holds memory that it may use again.
    code = "import numpy as np; from metricopt_lab.speed.timing import peak_memory; "
    code += "print(peak_memory(lambda: len(np.ones(2**24))))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert float(said) == pytest.approx(128, abs=16)


@pytest.mark.parametrize(
    ("sense", "median", "met"), [("at most", 1.0, True), ("at most", 1.2, False), ("at least", 1.2, True)]
)
def test_a_target_has_a_side(sense, median, met):
    assert Figure("a", "", median, 0, 0, 1, target=1.15, sense=sense).met is met
    assert Figure("a", "", median, 0, 0, 1, sense=sense).met is None


def test_an_unknown_figure_is_named_with_the_known_ones():
    with pytest.raises(UnknownNameError, match=f"no figure named 'z' here; known: {', '.join(sorted(FIGURES))}"):
        measure_speed(["z"], Effort())


def records():
    figures = [{**asdict(FIGURE), "met": True}, {**asdict(FIGURE), "median": None, "met": False}]
    shares = [
        {"run": "search", "function": "task: loss", "share": 0.25, "calls": 1200},
        {"run": "search", "function": "all", "share": 1.0, "seconds": 3.0},
    ]
    return [
        {"key": "a", "figures": figures, "versions": {"torch": "2.13", "finished": "day 1"}},
        {"key": "profile", "shares": shares, "versions": {"torch": "2.13", "finished": "day 2"}},
    ]


def test_the_page_shows_numbers_targets_and_where_the_time_goes():
    text = page(records())
    assert "1 of 2 targets are met" in text and "torch 2.13, finished day 1 to day 2." in text
    assert "| guided / plain | 1.10   | 1.00 to 1.20 | at most 1.15 | yes |" in text
    assert "search, 3.0 s:" in text and "| task: loss | 25%   | 1,200 |" in text


@pytest.fixture
def kept(tmp_path):
    store = Store(tmp_path / "speed.jsonl")
    for record in records():
        store.append(record)
    return store.path


def test_the_command_makes_the_page_of_records_again(kept, tmp_path):
    target = tmp_path / "page.md"
    result = CliRunner().invoke(app, ["bench", "speed", "--record", str(kept), "--page", str(target)])
    assert result.exit_code == 0 and target.read_text() == page(records())


@pytest.mark.parametrize("text", ["{\n", "[]\n", '{"key": "a", "figures": []}\n', ""])
def test_a_file_without_records_is_refused(tmp_path, text):
    source = tmp_path / "r.jsonl"
    source.write_text(text)
    with pytest.raises(FileFormatError, match=r"expected a (record|speed\.jsonl)"):
        CliRunner().invoke(app, ["bench", "speed", "--record", str(source)], catch_exceptions=False)


def test_the_command_keeps_what_it_measures_beside_what_was_measured_before(kept, tmp_path):
    arguments = ["bench", "speed", "--figures", "f", "--quick", "--repeats", "1", "--out", str(tmp_path)]
    assert CliRunner().invoke(app, [*arguments, "--json", str(tmp_path / "all.json")]).exit_code == 0
    store = Store(kept)
    assert list(store) == ["a", "f", "profile"] and store["a"] == records()[0]
    assert [figure["name"] for figure in store["f"]["figures"]] == ["f", "f", "f"] and store["f"]["versions"]["quick"]
    assert json.loads((tmp_path / "all.json").read_text()) == list(store.values())


def test_to_keep_records_and_to_measure_none_is_refused(kept, tmp_path):
    result = CliRunner().invoke(app, ["bench", "speed", "--record", str(kept), "--out", str(tmp_path)])
    assert result.exit_code == 2
