"""Figure 4: what a run measures and spends, and verdicts that follow from the records alone."""

from dataclasses import replace

import pytest
import torch

from metricopt.adapters import OutputAffine
from metricopt.data.dataset import Examples
from metricopt.losses import cross_entropy
from metricopt.metrics import mcr
from metricopt_lab.cells import Settings
from metricopt_lab.figures.figure4.experiment import EFFORTS, RATES, Figure4, measured_method
from metricopt_lab.figures.figure4.plot import draw_curves
from metricopt_lab.figures.figure4.text import METHODS, figure4_text
from metricopt_lab.problems import Problem

ENDS = {"sgd": 0.30, "adam": 0.29, "metricopt_sgd": 0.27, "metricopt_adam": 0.26, "search": 0.24}


def records(ends: dict[str, float] = ENDS, seeds: int = 3, scatter: float = 0.001) -> list[dict]:
    return [
        {"scale": "small", "data": "small_convnet", "seed": seed, "metric": "aucpr", "method": method, "queries": 300,
         "test_costs": [0.3, end + scatter * (-1) ** (seed + place) * seed], "rank_correlation": 0.5,
         "problem": "made up"} | ({} if method == "search" else {"steps": [0, 200], "rate": 30.0})
        for seed in range(seeds)
        for place, (method, end) in enumerate(ends.items())
    ]  # fmt: skip


def line(text: str, words: str) -> str:
    return next(line for line in text.splitlines() if words in line)


@pytest.fixture(scope="module")
def problem():
    draw = torch.Generator().manual_seed(0)
    inputs = torch.randn(120, 3, generator=draw)
    data = Examples(inputs, (inputs[:, 0] > 0.3).long())
    torch.manual_seed(0)
    return Problem("toy", torch.nn.Linear(3, 2), OutputAffine(), cross_entropy, mcr(), train=data, search=data,
                   accept=data, test=data, sampling="plain", batch_size=16, notes="made up", seed=0)  # fmt: skip


def test_ten_runs_of_five_methods():
    assert len({cell.key for cell in Figure4(Settings(seeds=10)).cells()}) == 10 * len(METHODS)


def test_the_paper_s_scale_has_500_tasks_of_200_steps_with_10_observations():
    effort = EFFORTS["paper"]
    assert (effort.stages.steps, effort.stages.queries_a_task, effort.steps) == (200, 10, 200)
    assert effort.queries - len(RATES["sgd"]) == effort.queries - len(RATES["adam"]) == 500 * 10


@pytest.mark.parametrize("method", METHODS)
def test_a_curve_starts_at_the_pre_trained_network_and_the_budget_is_kept(problem, method):
    effort = EFFORTS["smoke"]
    record = measured_method(problem, method, effort)
    before = float(problem.costs(torch.zeros(1, problem.task().dim), "test"))
    assert record["test_costs"][0] == pytest.approx(before, abs=1e-6)
    assert record["queries"] <= effort.queries
    if method in ("sgd", "adam"):
        assert record["queries"] == len(RATES[method])
    if method != "search":
        assert len(record["test_costs"]) == len(record["steps"]) == effort.marks + 1
        assert record["steps"][-1] == effort.steps
        assert record["search_costs"][f"{record['rate']:g}"] == min(record["search_costs"].values())


def test_test_images_change_nothing_but_the_reported_costs(problem):
    other = replace(problem, test=Examples(problem.test.inputs[:40], 1 - problem.test.targets[:40]))
    first, second = (measured_method(each, "metricopt_adam", EFFORTS["smoke"]) for each in (problem, other))
    assert first.pop("test_costs") != second.pop("test_costs")
    assert first == second


def test_the_claim_is_confirmed_where_the_curves_end_lower_beyond_two_standard_errors():
    text = figure4_text(records())
    assert line(text, "- MetricOpt (SGD) minus").endswith("lower (below 0 in 3 of 3 seeds): confirmed.")
    assert "-.0300" in line(text, "- MetricOpt (SGD) minus")
    assert "scale small (not the paper's), 3 runs" in text


@pytest.mark.parametrize(("end", "words"), [(0.33, "higher"), (0.30, "no difference is resolved")])
def test_what_contradicts_the_paper_is_said(end, words):
    text = figure4_text(records(ENDS | {"metricopt_sgd": end}))
    assert words in line(text, "- MetricOpt (SGD) minus")
    assert line(text, "- MetricOpt (SGD) minus").endswith("not confirmed.")


def test_one_run_gives_no_verdict():
    assert "one seed tells nothing: not confirmed" in line(figure4_text(records(seeds=1)), "- MetricOpt (SGD) minus")


def test_a_method_without_records_leaves_the_others_their_text():
    some = [record for record in records() if record["method"] != "search"]
    text = figure4_text(some)
    assert line(text, "- default search minus").endswith("not measured.")
    assert line(text, "- MetricOpt (SGD) minus").endswith(": confirmed.")


def test_a_picture_is_drawn(tmp_path):
    draw_curves(records(), tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
