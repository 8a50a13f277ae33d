"""Figure 3: what its value functions have in common, how they are followed, and verdicts from the records alone."""

from dataclasses import replace

import pytest
import torch

from metricopt.adapters import OutputAffine
from metricopt.core.records import Trajectory
from metricopt.data.dataset import Examples
from metricopt.losses import cross_entropy
from metricopt.metrics import mcr
from metricopt_lab.cells import Settings
from metricopt_lab.figures.figure3.bench import EFFORTS, SCHEMES, VARIANTS, Bench, labelled_by
from metricopt_lab.figures.figure3.experiment import Figure3, measured_scheme, measured_value
from metricopt_lab.figures.figure3.plot import draw_rows
from metricopt_lab.figures.figure3.text import SCHEME_WORDS, figure3_text
from metricopt_lab.problems import Problem

SMOKE = EFFORTS["smoke"]["small_convnet"]


def records(
    errors: dict[str, float] | None = None, finals: dict[str, float] | None = None, seeds: int = 3
) -> list[dict]:
    errors, finals = errors or {}, finals or {}
    row = {"scale": "small", "data": "resnet32", "test_before": 0.12, "problem": "made up", "queries": 120, "rate": 0.1}
    scatter = [0.0, 0.0002, -0.0001]
    values = [
        row | {"seed": seed, "metric": "value", "method": name, "rank_correlation": 0.5, "spread": 0.03,
               "prediction_error": errors.get(name, 0.02) + scatter[seed] * i, "observations": 2,
               "test_cost": finals.get(name, 0.12),
               "predicted_change": [0.0, 0.1], "true_change": [0.0, 0.2]}
        for seed in range(seeds) for i, name in enumerate(VARIANTS)
    ]  # fmt: skip
    schemes = [
        row
        | {"seed": seed, "metric": "scheme", "method": name, "test_cost": finals.get(name, 0.12) + scatter[seed] * i}
        for seed in range(seeds)
        for i, name in enumerate(SCHEMES)
    ]
    return values + schemes


def line(text: str, words: str) -> str:
    return next(line for line in text.splitlines() if words in line)


@pytest.fixture(scope="module")
def bench():
    draw = torch.Generator().manual_seed(0)
    inputs = torch.randn(200, 3, generator=draw)
    data = Examples(inputs, (inputs[:, 0] > 0.3).long())
    torch.manual_seed(0)
    problem = Problem("toy", torch.nn.Linear(3, 2), OutputAffine(), cross_entropy, mcr(), train=data, search=data,
                      accept=data, test=data, sampling="plain", batch_size=16, notes="made up", seed=0)  # fmt: skip
    return Bench(problem, SMOKE)


def test_the_paper_s_scale_has_500_tasks_of_200_steps_with_10_observations_for_both_networks():
    efforts = EFFORTS["paper"].values()
    assert {(each.tasks, each.steps, each.observations) for each in efforts} == {(500, 200, 10)}
    assert set(EFFORTS["paper"]) == set(EFFORTS["small"]) == {"small_convnet", "resnet32"}


def test_every_value_function_and_scheme_is_measured_for_every_seed():
    cells = Figure3(Settings(seeds=5, data=("small_convnet",))).cells()
    assert len({cell.key for cell in cells}) == len(cells) == 5 * (len(VARIANTS) + len(SCHEMES))
    assert set(SCHEMES) == set(SCHEME_WORDS)


def test_variants_differ_in_what_their_names_say_only():
    full = VARIANTS["reptile"]
    assert VARIANTS["reptile-no-oe"] == replace(full, training=replace(full.training, ordinal=0.0))
    assert VARIANTS["reptile-no-s"] == replace(full, uncertainty=False)
    assert VARIANTS["rounds"] == replace(VARIANTS["offline"], rounds=2)


def test_held_out_paths_are_apart_from_those_learnt_from(bench):
    kept, unseen = bench.paths
    assert len(kept.phi) + len(unseen.phi) == SMOKE.tasks
    assert not torch.isin(unseen.phi[:, 0, 0], kept.phi[:, 0, 0]).any()


def test_s_t_is_the_interpolation_s_own_unless_a_floor_or_an_average_is_wanted():
    steps = torch.tensor([[0, 5, 9], [0, 2, 9]])
    costs = torch.tensor([[0.5, 0.3, 0.2], [0.6, 0.4, 0.4]], dtype=torch.float64)
    paths = Trajectory(torch.zeros(2, 10, 3), torch.zeros(2, 10), steps, costs, noise_std=0.5)
    own, floored, equal = (labelled_by(VARIANTS[f"offline{each}"], paths).std for each in ("", "-floor", "-no-s"))
    assert own.min() < 0.01 < own.max()
    assert bool((floored >= 0.5).all())
    torch.testing.assert_close(equal, own.mean().expand_as(own))


def test_two_rounds_learn_from_as_many_observations_as_one(bench):
    bench.value(VARIANTS["offline"])
    before = bench.oracle.ledger.used
    bench.value(VARIANTS["rounds"])
    assert before + (SMOKE.tasks - 2) // 2 * SMOKE.observations == bench.oracle.ledger.used
    assert measured_value(bench, "rounds")["queries"] == SMOKE.tasks * SMOKE.observations + len(SMOKE.rates)


@pytest.mark.parametrize("name", ["offline", "reptile"])
def test_a_value_function_is_judged_by_held_out_observations(bench, name):
    record, (phi, costs) = measured_value(bench, name), bench.unseen
    errors = [
        abs(float(bench.value(VARIANTS[name])(one[None])) - float(cost)) for one, cost in zip(phi, costs, strict=True)
    ]
    assert record["prediction_error"] == pytest.approx(sum(errors) / len(errors), rel=1e-4)
    assert ("true_change" in record) == (name == "offline")


def test_only_the_loss_alone_needs_no_paths(bench):
    assert measured_scheme(bench, "loss")["queries"] == len(SMOKE.rates)
    assert measured_scheme(bench, "both-es")["queries"] == len(SMOKE.rates) + bench.queries


def test_metric_only_is_blind_to_the_loss_and_the_others_are_not(bench):
    def another(outputs, targets):
        return cross_entropy(outputs.roll(1, -1) ** 2, targets)

    other = Bench(replace(bench.problem, loss=another), SMOKE)
    for name, same in (("metric-exact", True), ("subspace-exact", False), ("both-exact", False), ("loss", False)):
        first, second = (each.followed(bench.usual, SCHEMES[name]).path for each in (bench, other))
        assert first.equal(second) == same


def test_the_ordinal_term_is_confirmed_where_the_error_is_lower_with_it_only():
    text = figure3_text(records({"offline": 0.01, "offline-no-oe": 0.03, "reptile": 0.03, "reptile-no-oe": 0.01}))
    assert line(text, "- offline: -.02").endswith(": confirmed.")
    assert line(text, "- reptile: +.0").endswith(": not confirmed.")
    assert line(text, "published, with L_oe").split("|")[2].strip() == ".0230"


def test_a_correlation_is_high_where_larger_errors_end_higher():
    rising = {name: 0.02 + 0.01 * i for i, name in enumerate(VARIANTS)}
    text = figure3_text(records(rising, {name: 0.1 + cost for name, cost in rising.items()}))
    assert line(text, "one a value function and seed: +").endswith(": confirmed (from 0.7 on);")
    text = figure3_text(records(rising, {name: 0.5 - cost for name, cost in rising.items()}))
    assert line(text, "one a value function and seed: -").endswith(": not confirmed (from 0.7 on);")


def test_meta_testing_is_judged_against_loss_and_metric_sampled():
    text = figure3_text(records(finals={"loss": 0.2, "metric-es": 0.3}))
    assert line(text, "- loss only: +.0").endswith("without the metric: confirmed.")
    assert line(text, "- metric only, sampled: +.1").endswith("barely hurts: not confirmed.")


def test_it_is_said_where_nothing_is_gained():
    assert "No way ends below the pre-trained network" in figure3_text(records())
    assert "No way ends below the pre-trained network" not in figure3_text(records(finals={"both-es": 0.1}))


def test_a_picture_is_drawn(tmp_path):
    draw_rows(records(), tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
