"""Cells of the quality benchmark: what is run, judged, stored, kept and computed again."""

import json
from functools import partial

import pytest
import torch
from typer.testing import CliRunner

from metricopt.cli.app import app
from metricopt.core.errors import BudgetError, UnknownNameError
from metricopt.core.registry import Registry
from metricopt_lab.cells import Store, run
from metricopt_lab.cells.runner import render
from metricopt_lab.problems import ProblemSpec
from metricopt_lab.problems.adult import adult
from metricopt_lab.quality import Quality, Settings, experiment, methods_of, summary_of
from metricopt_lab.quality.judge import Judge
from metricopt_lab.quality.methods import PLANNERS
from metricopt_lab.quality.rows import judged

BUDGETS = (16, 40)
METHODS = ("pretrained", "post_shift", "loss_dense", "metricopt")

small = partial(adult, "small", data="adult_a9a", metric="f1", sizes=(1000, 300, 300, 400))


@pytest.fixture(scope="module")
def judge():
    return Judge(small(seed=0, dim=8), kind="threshold", resamples=50)


@pytest.fixture
def one_problem(monkeypatch):
    """The registry with one small problem in it."""
    problems = Registry("problem")
    problems.add("small")(ProblemSpec("small", "threshold", small, "a small problem"))
    monkeypatch.setattr(experiment, "PROBLEMS", problems)
    return Settings(queries=BUDGETS, seeds=1, methods=METHODS, dims=(8,), resamples=50)


def changed(path, method, **changes):
    """The records of a file, those of a method changed."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    records = [record | changes if record["method"] == method else record for record in records]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def method(name, **more):
    return next(one for one in methods_of(Settings(methods=(name,), **more)))


def test_a_rival_that_works_anytime_gives_with_fewer_queries_what_a_shorter_run_gives(judge):
    for one in methods_of(Settings()):
        if one.name in PLANNERS or "metricopt" in one.name:
            continue
        long, short = (
            one.search(judge.problem.oracle(queries=q, labels_visible=one.needs_labels), queries=q, seed=0)[0]
            for q in (60, 30)
        )
        assert torch.allclose(long.at(30), short.phi, atol=1e-5), one.name


def test_a_method_that_plans_with_its_budget_is_run_once_for_each(judge):
    rows = judged(method("loss_dense"), judge, budgets=BUDGETS, seed=0)
    assert [row["queries_used"] for row in rows] == list(BUDGETS)
    alone = judged(method("loss_dense"), judge, budgets=BUDGETS[:1], seed=0)
    assert rows[0]["cost_after"] == alone[0]["cost_after"]


def test_rows_agree_with_the_problem_itself(judge):
    problem, post_shift = judge.problem, method("post_shift")
    row = judged(post_shift, judge, budgets=BUDGETS, seed=0)[-1]
    phi = post_shift.search(problem.oracle(queries=BUDGETS[-1]), queries=BUDGETS[-1], seed=0)[0].phi
    pair = torch.stack([torch.zeros_like(phi), phi])
    assert [row["cost_before"], row["cost_after"]] == pytest.approx(problem.costs(pair, "test").tolist())
    assert [row["search_cost_before"], row["search_cost_after"]] == pytest.approx(
        problem.costs(pair, "search").tolist()
    )
    assert row["test_after"] == pytest.approx(1 - row["cost_after"])  # F1 is better when larger
    assert row["test_returned"] == (row["test_after"] if row["accepted"] else row["test_before"])
    assert row["search_cost_after"] <= row["search_cost_before"]


def test_the_original_is_judged_without_a_bootstrap_and_never_accepted_against_itself(judge):
    rows = judged(method("pretrained"), judge, budgets=BUDGETS, seed=0)
    for row in rows:
        assert row["cost_after"] == row["cost_returned"] == row["cost_before"]
        assert (row["accepted"], row["accept_interval"], row["queries_used"]) == (False, [0.0, 0.0], 0)


def test_labels_are_hidden_from_methods_that_do_not_declare_them():
    needs = {one.name for one in methods_of(Settings(tag="x")) if one.needs_labels}
    assert needs == {
        "label_finetune", "label_finetune_then_cma", "label_finetune_then_post_shift",
        "metricopt_labels", "metricopt_labels@x",
    }  # fmt: skip


def test_finished_cells_are_kept_and_those_of_another_version_computed_again(one_problem, tmp_path):
    bench, measured = Quality(one_problem), []

    def again(**more):
        measured.clear()
        return run(bench, tmp_path, watch=lambda *news: measured.append(news[2].split("__")[1]), **more)

    assert not again().failures
    assert set(measured) == set(METHODS)
    again()
    assert measured == []
    changed(tmp_path / "quality.jsonl", "metricopt", version=1)
    changed(tmp_path / "quality.jsonl", "post_shift", settings={"queries": [10]})
    again()
    assert set(measured) == {"post_shift", "metricopt"}


def test_a_method_that_fails_leaves_its_cell_missing_and_the_others_whole(one_problem, tmp_path, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("out of ideas")

    with monkeypatch.context() as patched:
        patched.setattr("metricopt_lab.quality.methods.propose", broken)
        failures = run(Quality(one_problem), tmp_path).failures
    assert len(failures) == 1 and "metricopt" in failures[0].key and "out of ideas" in str(failures[0])
    assert len(Store(tmp_path / "quality.jsonl")) == 3
    assert run(Quality(one_problem), tmp_path).measured == 1


def test_a_summary_covers_variants_and_counts_records_of_another_version(one_problem, tmp_path):
    variant = Settings(
        queries=BUDGETS, seeds=1, methods=("pretrained", "metricopt@raw"), dims=(8,), resamples=50,
        tag="raw", recipe={"whiten": False},
    )  # fmt: skip
    run(Quality(variant), tmp_path)
    changed(tmp_path / "quality.jsonl", "pretrained", version=0)
    done = render(Quality(one_problem), tmp_path)
    assert "1 is stale: 1 of pretrained by version 0, now 1." in done.text
    summary = summary_of(done.records)
    assert {one["method"] for one in summary["standings"]["user"]} == {"pretrained", "metricopt@raw"}
    assert summary["rows"] == 4
    assert all((tmp_path / name).exists() for name in ("quality.md", "quality-gain.png", "quality-wins.png"))


def test_a_variant_with_another_recipe_under_the_same_tag_is_computed_again(one_problem, tmp_path):
    def variant(recipe):
        methods = ("metricopt@raw",)
        return Quality(Settings(queries=BUDGETS, seeds=1, methods=methods, dims=(8,), tag="raw", recipe=recipe))

    first, other = ({"whiten": False}, {"views": False})
    assert [run(variant(recipe), tmp_path).measured for recipe in (first, first, other)] == [1, 0, 1]


def test_budgets_names_and_recipes_that_make_no_sense_are_refused():
    with pytest.raises(BudgetError, match="increasing"):
        Settings(queries=(500, 50))
    with pytest.raises(UnknownNameError, match="cma_ess"):
        methods_of(Settings(methods=("cma_ess",)))
    with pytest.raises(UnknownNameError, match="no tag"):
        Settings(recipe={"whiten": False})
    with pytest.raises(UnknownNameError, match="no field 'white'"):
        Settings(tag="x", recipe={"white": False})


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
    written = (tmp_path / "quality.jsonl").stat().st_mtime_ns
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert (tmp_path / "quality.jsonl").stat().st_mtime_ns == written
    assert json.loads((tmp_path / "quality-summary.json").read_text())["rows"] == 4
