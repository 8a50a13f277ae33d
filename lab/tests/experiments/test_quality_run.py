"""Cells of the quality benchmark: what is run, judged, stored, kept and computed again."""

import json
import os
from functools import partial

import pytest
import torch
from typer.testing import CliRunner

from metricopt.cli import app
from metricopt.core.errors import BudgetError, MetricOptError, UnknownNameError
from metricopt.core.registry import Registry
from metricopt_lab.experiments.quality import Settings, methods_of, summarise
from metricopt_lab.experiments.quality import run as quality_run
from metricopt_lab.experiments.quality.cell import cell_rows
from metricopt_lab.experiments.quality.cells import CellStore
from metricopt_lab.experiments.quality.judge import Judge
from metricopt_lab.experiments.quality.methods import PLANNERS
from metricopt_lab.experiments.quality.run import missing_groups, run_group
from metricopt_lab.experiments.quality.workers import in_processes
from metricopt_lab.problems import ProblemSpec
from metricopt_lab.problems.adult import adult

BUDGETS = (16, 40)
METHODS = ("pretrained", "post_shift", "loss_dense", "metricopt")

small = partial(adult, "small", data="adult_a9a", metric="f1", sizes=(1000, 300, 300, 400))


@pytest.fixture(scope="module")
def judge():
    return Judge(small(seed=0, dim=8), film_dim=8, resamples=50)


@pytest.fixture
def one_problem(monkeypatch):
    """The registry with one small problem in it."""
    problems = Registry("problem")
    problems.add("small")(ProblemSpec("small", "threshold", small, "a small problem"))
    monkeypatch.setattr(quality_run, "PROBLEMS", problems)
    return Settings(queries=BUDGETS, seeds=1, methods=METHODS, dims=(8,), resamples=50)


def run_all(settings, out):
    return [news for group in missing_groups(settings, CellStore(out)) for news in run_group(group, settings, out)]


def method(name, **more):
    return next(one for one in methods_of(Settings(methods=(name,), **more)))


def test_a_rival_that_works_anytime_gives_with_fewer_queries_what_a_shorter_run_gives(judge):
    for one in methods_of(Settings()):
        if one.name in PLANNERS or "metricopt" in one.name:
            continue
        long, short = (
            one.search(judge.problem.task(queries=q, labels_visible=one.needs_labels), queries=q, seed=0)[0]
            for q in (60, 30)
        )
        assert torch.allclose(long.at(30), short.phi, atol=1e-5), one.name


def test_a_method_that_plans_with_its_budget_is_run_once_for_each(judge):
    rows = cell_rows(method("loss_dense"), judge, budgets=BUDGETS, seed=0, kind="threshold")
    assert [row["queries_used"] for row in rows] == list(BUDGETS)
    alone = cell_rows(method("loss_dense"), judge, budgets=BUDGETS[:1], seed=0, kind="threshold")
    assert rows[0]["cost_after"] == alone[0]["cost_after"]


def test_rows_agree_with_the_problem_itself(judge):
    problem, post_shift = judge.problem, method("post_shift")
    row = cell_rows(post_shift, judge, budgets=BUDGETS, seed=0, kind="threshold")[-1]
    phi = post_shift.search(problem.task(queries=BUDGETS[-1]), queries=BUDGETS[-1], seed=0)[0].phi
    pair = torch.stack([torch.zeros_like(phi), phi])
    assert [row["cost_before"], row["cost_after"]] == pytest.approx(problem.costs(pair, "test").tolist())
    assert [row["search_cost_before"], row["search_cost_after"]] == pytest.approx(
        problem.costs(pair, "search").tolist()
    )
    assert row["test_after"] == pytest.approx(1 - row["cost_after"])  # F1 is better when larger
    assert row["test_returned"] == (row["test_after"] if row["accepted"] else row["test_before"])
    assert row["search_cost_after"] <= row["search_cost_before"]


def test_the_original_is_judged_without_a_bootstrap_and_never_accepted_against_itself(judge):
    rows = cell_rows(method("pretrained"), judge, budgets=BUDGETS, seed=0, kind="threshold")
    for row in rows:
        assert row["cost_after"] == row["cost_returned"] == row["cost_before"]
        assert (row["accepted"], row["accept_interval"], row["queries_used"]) == (False, [0.0, 0.0], 0)


def test_labels_are_hidden_from_methods_that_do_not_declare_them():
    needs = {one.name for one in methods_of(Settings(tag="x")) if one.needs_labels}
    assert needs == {
        "label_finetune", "label_finetune_then_cma", "label_finetune_then_post_shift",
        "metricopt_labels", "metricopt_labels@x",
    }  # fmt: skip


def test_finished_cells_are_kept_and_stale_ones_computed_again(one_problem, tmp_path):
    first = run_all(one_problem, tmp_path)
    assert [news.cell.method for news in first] == ["post_shift", "loss_dense", "pretrained", "metricopt"]
    assert not any(news.failure for news in first)
    assert run_all(one_problem, tmp_path) == []
    (tmp_path / "cells" / "small__post_shift__0__d8.json").unlink()
    stale = tmp_path / "cells" / "small__metricopt__0__d8.json"
    cell = json.loads(stale.read_text())
    stale.write_text(json.dumps(cell | {"settings": cell["settings"] | {"code": "older"}}))
    assert [news.cell.method for news in run_all(one_problem, tmp_path)] == ["post_shift", "metricopt"]


def test_a_method_that_fails_leaves_its_cell_missing_and_the_others_whole(one_problem, tmp_path, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("out of ideas")

    with monkeypatch.context() as patched:
        patched.setattr("metricopt_lab.experiments.quality.methods.propose", broken)
        news = run_all(one_problem, tmp_path)
    assert ["out of ideas" in one.failure for one in news] == [False, False, False, True]
    assert [one.cell.method for one in run_all(one_problem, tmp_path)] == ["metricopt"]


def test_a_summary_covers_variants_and_names_cells_of_older_code(one_problem, tmp_path):
    variant = Settings(
        queries=BUDGETS, seeds=1, methods=("pretrained", "metricopt@raw"), dims=(8,), resamples=50,
        tag="raw", recipe={"whiten": False},
    )  # fmt: skip
    run_all(variant, tmp_path)
    path = tmp_path / "cells" / "small__pretrained__0__d8.json"
    cell = json.loads(path.read_text())
    path.write_text(json.dumps(cell | {"settings": cell["settings"] | {"code": "older"}}))
    summary = summarise(tmp_path, variant)
    assert summary["older_code"] == {"pretrained": 1}
    assert {one["method"] for one in summary["standings"]["user"]} == {"pretrained", "metricopt@raw"}
    assert json.loads((tmp_path / "summary.json").read_text())["rows"] == 4
    assert all((tmp_path / name).exists() for name in ("summary.md", "gain.png", "wins.png"))


def test_budgets_names_and_recipes_that_make_no_sense_are_refused():
    with pytest.raises(BudgetError, match="increasing"):
        Settings(queries=(500, 50))
    with pytest.raises(UnknownNameError, match="cma_ess"):
        methods_of(Settings(methods=("cma_ess",)))
    with pytest.raises(UnknownNameError, match="no tag"):
        Settings(recipe={"whiten": False})
    with pytest.raises(UnknownNameError, match="no field 'white'"):
        Settings(tag="x", recipe={"white": False})


def test_processes_report_all_that_their_jobs_yield():
    assert sorted(in_processes(range, [3, 2], workers=2)) == [0, 0, 1, 1, 2]


def test_a_process_that_fails_or_dies_is_an_error_and_no_endless_wait():
    with pytest.raises(MetricOptError, match="failed"):
        list(in_processes(range, ["three"], workers=1))
    with pytest.raises(MetricOptError, match="died"):
        list(in_processes(os._exit, [3], workers=1))


def test_the_command_runs_resumes_and_writes_rows(tmp_path):
    arguments = [
        "bench", "quality", "--out", str(tmp_path), "--queries", "16,20", "--seeds", "1", "--dim", "4",
        "--problems", "a9a_plain_f1", "--methods", "pretrained,random_search", "--json", str(tmp_path / "rows.json"),
        "--workers", "1",
    ]  # fmt: skip
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "Mean rank over problems" in result.output
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [(row["method"], row["queries"]) for row in rows] == [
        ("pretrained", 16), ("pretrained", 20), ("random_search", 16), ("random_search", 20),
    ]  # fmt: skip
    written = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()}
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()} == written
