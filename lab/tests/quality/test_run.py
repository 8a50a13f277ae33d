"""Cells of the quality benchmark: what is run, judged, stored, kept and measured again, by the command too."""

import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from metricopt import optimize
from metricopt.cli.app import app
from metricopt.core.errors import BudgetError, DataError, UnknownNameError
from metricopt.metrics import METRICS
from metricopt_lab.cells import Store, run
from metricopt_lab.problems.zoo import PROBLEMS, Spec
from metricopt_lab.problems.zoo.building import Variant
from metricopt_lab.problems.zoo.sources import Pool
from metricopt_lab.quality import METHODS, Quality, Settings, methods_of
from metricopt_lab.quality.ground import Ground
from metricopt_lab.quality.methods import LIBRARIES
from metricopt_lab.rivals import BASELINES

BUDGETS = (16, 40)
METHODS_SHOWN = ("metricopt", "bias", "finetune_bias", "ranking_bias")


def toy_pool() -> Pool:
    draw = torch.Generator().manual_seed(0)
    inputs = torch.randn(1200, 5, generator=draw)
    target = (inputs[:, 0] + 0.7 * torch.randn(1200, generator=draw) > 0.8).long()
    return Pool(inputs, target, 2, groups={"side": np.arange(1200) % 2})


@pytest.fixture
def toys(monkeypatch, tmp_path):
    """The registry with two small problems in it, one with hidden labels."""
    monkeypatch.setenv("METRICOPT_CACHE", str(tmp_path / "cache"))
    variant = Variant((400, 300, 500), flipped=0.3, epochs=2)
    for name, visible in (("adult_toy", True), ("adult_toy_hidden", False)):
        spec = Spec(name, "development", "threshold", "adult", visible, toy_pool, METRICS["f1"], variant)
        monkeypatch.setitem(PROBLEMS._components, name, spec)
    return ("adult_toy", "adult_toy_hidden")


def settings(problems, **more):
    return Settings(**{"queries": BUDGETS, "seeds": 1, "problems": problems, **more})


def changed(path, method, **changes):
    """The records of a file, those of a method changed."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    records = [record | changes if record["method"] == method else record for record in records]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def test_methods_are_measured_where_they_can_be_used(toys):
    cells = Quality(settings(toys)).cells()
    visible, hidden = ({cell.method for cell in cells if cell.problem == name} for name in toys)
    assert {"metricopt", "finetune_bias", "wise_ft", "greedy_soup", "finetune_refit_bias", "bias"} <= visible
    assert hidden == {
        "metricopt", "post_shift", "cma_es", "snes", "spsa", "random_search", "post_shift_then_cma", *LIBRARIES
    }  # fmt: skip


def test_optimizers_of_others_are_measured_up_to_500_calls_and_their_seconds_a_suggestion_told(toys, tmp_path):
    cells = Quality(settings(toys, queries=(150, 500, 2000))).cells()
    assert {cell.queries for cell in cells if cell.method in LIBRARIES} == {150, 500}
    text = run(Quality(settings(toys[1:], queries=(16,), methods=("cr_fm_nes", "random_search"))), tmp_path).text
    assert "Labels hidden: seconds per suggestion" in text


def test_cells_of_the_final_half_have_seeds_of_their_own_and_development_never_meets_its_problems():
    final = Quality(Settings("final", seeds=2)).cells()
    development = Quality(Settings("development", seeds=5)).cells()
    assert {cell.seed for cell in final} == {100, 101}
    assert {cell.problem for cell in final}.isdisjoint(cell.problem for cell in development)
    with pytest.raises(UnknownNameError, match="no development problem named 'adult_worst_group'"):
        Quality(Settings("development", problems=("adult_worst_group",))).cells()


def test_a_record_says_what_the_method_gave_and_what_it_took(toys, tmp_path):
    done = run(Quality(settings(toys, methods=METHODS_SHOWN)), tmp_path)
    assert not done.failures
    assert {record["method"] for record in done.records if not record["offered"]} == {"ranking_bias"}
    for record in (record for record in done.records if record["offered"]):
        assert record["seconds"] >= 0 and record["cpu_seconds"] >= 0
        if record["method"] == "metricopt":
            assert record["calls"] >= record["details"]["queries"] and record["verdict"]
        else:
            assert record["calls"] <= record["queries"] and record["cost_returned"] == record["cost_proposed"]


def test_ours_is_what_a_user_s_call_gives(toys):
    ground = Ground(PROBLEMS[toys[0]].build(0))
    problem = ground.problem
    found = METHODS["metricopt"].run(ground, queries=40)
    result = optimize(problem.net, metric="f1", train=(problem.train.inputs, problem.train.targets),
                      val=(problem.val.inputs, problem.val.targets), loss=problem.loss, queries=40, seed=0)  # fmt: skip
    comparison = result.evaluate((problem.test.inputs, problem.test.targets))
    assert found is not None and 1 - found.returned == pytest.approx(comparison.after)
    assert 1 - ground.before == pytest.approx(comparison.before)


def test_a_budget_after_another_gives_what_it_gives_alone_and_is_told_the_whole_time(toys):
    ground, fresh = (Ground(PROBLEMS[toys[0]].build(0)) for _ in range(2))
    first = METHODS["metricopt"].run(ground, queries=20)
    second, alone = (METHODS["metricopt"].run(each, queries=40) for each in (ground, fresh))
    assert first is not None and second is not None and alone is not None
    assert (second.returned, second.proposed, second.calls) == (alone.returned, alone.proposed, alone.calls)
    assert ground.shared_fits.spared.cpu > 0 and second.took.cpu > ground.shared_fits.spared.cpu
    assert fresh.shared_fits.spared.cpu == 0


def test_label_free_rivals_are_asked_about_all_of_validation_and_judged_on_test_rows(toys):
    ground = Ground(PROBLEMS[toys[1]].build(0))
    oracle = ground.oracle(40)
    assert not oracle.task.labels_visible
    phi = BASELINES["post_shift"].run(oracle, queries=40, seed=0).phi
    found = METHODS["post_shift"].run(ground, queries=40)
    assert found is not None and found.calls <= 40
    assert found.returned == pytest.approx(ground.test_costs(ground.model, phi[None])[0])
    assert ground.test_costs(ground.model, torch.zeros(1, ground.model.dim))[0] == pytest.approx(ground.before)


def test_finished_cells_are_kept_and_those_of_another_version_measured_again(toys, tmp_path):
    bench, measured = Quality(settings(toys[:1], methods=("bias", "finetune_bias"))), []

    def again():
        measured.clear()
        return run(bench, tmp_path, watch=lambda *news: measured.append(news[2].split("__")[2]))

    assert not again().failures and measured == ["bias"] * 2 + ["finetune_bias"] * 2
    assert not again().measured
    changed(tmp_path / "quality_development.jsonl", "bias", version=0)
    assert again().measured == 2 and set(measured) == {"bias"}
    more = run(Quality(settings(toys[:1], methods=("bias",), queries=(*BUDGETS, 60))), tmp_path)
    assert more.measured == 1 and len(Store(tmp_path / "quality_development.jsonl")) == 5
    assert (tmp_path / "quality_development-gain.svg").exists() and (tmp_path / "quality_development.md").exists()


def test_a_picture_is_the_same_whenever_it_is_drawn(toys, tmp_path):
    bench = Quality(settings(toys[:1], methods=("bias", "metricopt"), queries=(16,)))
    done = run(bench, tmp_path)
    first = [(tmp_path / f"quality_development-{name}.svg").read_bytes() for name in ("gain", "duels")]
    bench.draw(done.records, tmp_path)
    assert first == [(tmp_path / f"quality_development-{name}.svg").read_bytes() for name in ("gain", "duels")]


def test_budgets_halves_seeds_and_names_that_make_no_sense_are_refused():
    with pytest.raises(BudgetError, match="increasing"):
        Settings(queries=(500, 50))
    with pytest.raises(BudgetError, match="6 seeds were asked for; expected 1 to 5"):
        Settings(seeds=6)
    with pytest.raises(UnknownNameError, match="'third'; expected 'development' or 'final'"):
        Settings(half="third")  # pyright: ignore[reportArgumentType]
    with pytest.raises(UnknownNameError, match="cma_ess"):
        methods_of(Settings(methods=("cma_ess",)))


def test_the_command_runs_and_resumes_and_skips_a_problem_without_data_with_a_note(toys, tmp_path, monkeypatch):
    def nothing():
        raise DataError("pictures.npz is missing; expected it: draw them")

    spec = Spec("adult_gone", "development", "null", "adult", True, nothing, METRICS["f1"], Variant((1, 1, 1)))
    monkeypatch.setitem(PROBLEMS._components, "adult_gone", spec)
    arguments = [
        "bench", "quality", "--out", str(tmp_path), "--queries", "16", "--seeds", "1", "--workers", "1",
        "--problems", "adult_toy,adult_gone", "--methods", "bias,finetune_bias", "--json", str(tmp_path / "rows.json"),
    ]  # fmt: skip
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert result.output.count("pictures.npz is missing") == 1
    assert [row["method"] for row in json.loads((tmp_path / "rows.json").read_text())] == ["bias", "finetune_bias"]
    written = (tmp_path / "quality_development.jsonl").stat().st_mtime_ns
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert (tmp_path / "quality_development.jsonl").stat().st_mtime_ns == written
