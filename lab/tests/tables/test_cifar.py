import math

import pytest
import torch
from torch import nn

from metricopt.adapters import FiLM, OutputAffine
from metricopt.data.dataset import Examples
from metricopt.losses import cross_entropy
from metricopt.metrics import mcr
from metricopt_lab.cells import Settings
from metricopt_lab.problems import Problem
from metricopt_lab.tables.cifar.methods import ADVANCED, BUDGETS, Bench, budget_of
from metricopt_lab.tables.cifar.text import PUBLISHED, gain_of, lead_over, table_text
from metricopt_lab.tables.table2 import Table2


def record(method, seed, gain, resampled):
    return {
        "scale": "small", "method": method, "seed": seed, "gain": gain, "resampled_gains": resampled, "before": 0.7,
        "after": 0.7 + gain, "accepted": gain > 0, "queries": 300, "budget": 300, "seconds": 1.0,
        "test_standard_error": 0.003, "problem": "made up",
    }  # fmt: skip


RECORDS = [
    *(record("ce", seed, 0.0, [0.0, 0.0, 0.0]) for seed in (0, 1)),
    record("cma_es", 0, 0.02, [0.01, 0.02, 0.03]),
    record("cma_es", 1, 0.04, [0.03, 0.04, 0.05]),
    record("metricopt", 0, 0.05, [0.04, 0.05, 0.06]),
    record("metricopt", 1, 0.05, [0.04, 0.05, 0.06]),
]


@pytest.fixture(scope="module")
def problem():
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(400, 6, generator=draw)
    # Class 2 is hardly ever predicted: its logit is too low, which a bias mends.
    y = (x[:, :3] + 0.1 * torch.randn(400, 3, generator=draw)).argmax(1)
    first, last = nn.Linear(6, 8), nn.Linear(8, 3)
    with torch.no_grad():
        first.weight.copy_(torch.eye(8, 6))
        first.bias.zero_()
        last.weight.copy_(torch.eye(3, 8))
        last.bias.copy_(torch.tensor([0.0, 0.0, -2.0]))
    net = nn.Sequential(first, nn.BatchNorm1d(8), last).eval()
    parts = {name: Examples(x[i::4], y[i::4]) for i, name in enumerate(("train", "search", "accept", "test"))}
    adapter = FiLM(dim=4) + OutputAffine()
    return Problem(
        "toy", net, adapter, cross_entropy, mcr(), **parts, sampling="plain", batch_size=16, notes="", seed=0
    )


def test_a_gain_has_the_spread_over_seeds_and_the_sampling_of_test_images_in_its_error():
    gain = lead_over(RECORDS, "metricopt", "cma_es")
    assert gain is not None
    assert (gain.mean, gain.seeds) == (pytest.approx(0.02), 2)
    assert gain.spread == pytest.approx(math.sqrt(2) * 0.01)
    assert gain.test_error == pytest.approx(0.0, abs=1e-12)  # both move together from resample to resample
    assert gain_of(RECORDS, "metricopt").test_error == pytest.approx(0.01)


def test_what_the_acceptance_test_of_the_search_turned_down_counts_as_the_original():
    worse = [*RECORDS[:2], *(record("metricopt", seed, -0.05, [-0.05, -0.04, -0.06]) for seed in (0, 1))]
    assert gain_of(worse, "metricopt") == (0.0, 0.0, 0.0, 2)
    unguarded = [{**each, "method": each["method"].replace("metricopt", "cma_es")} for each in worse]
    assert gain_of(unguarded, "cma_es").mean == pytest.approx(-0.05)


@pytest.mark.parametrize("number", [1, 2])
def test_the_text_has_every_method_beside_every_published_figure(number):
    text = table_text(number, RECORDS)
    assert "scale small (not the paper's), 2 seeds" in text
    assert all(f"| {name}" in text and f"| {value}" in text for name, value in PUBLISHED[number])
    assert "+2.00 ± 1.00" in text  # metricopt less cma_es
    assert "+3.00 ± 1.41" in text  # cma_es less the original, seed by seed


def test_rows_measured_alone_or_on_other_seeds_are_told_and_not_compared():
    alone = [record("cma_es", 0, 0.02, [0.01, 0.02, 0.03]), record("metricopt", 1, 0.05, [0.04, 0.05, 0.06])]
    assert lead_over(alone, "metricopt", "cma_es") is None
    for some in (alone[:1], alone[1:], alone):
        text = table_text(1, some)
        assert all(f"{100 * each['gain']:+.2f}" in text for each in some) and "not measured" in text


def test_bias_and_temperature_are_all_that_is_tuned_and_mend_a_class_that_is_hardly_predicted(problem):
    found = Bench(problem, BUDGETS["smoke"], ADVANCED["resnet32"]).bias_temperature()
    film, scales, shifts = found.phi.split([4, 3, 3])
    assert not film.any() and len(scales.unique()) == 1 and shifts[2] > shifts[:2].max()
    before, after = problem.costs(torch.stack([0 * found.phi, found.phi]), "test").tolist()
    assert after < before - 0.1 and found.queries <= BUDGETS["smoke"].queries


def test_every_row_of_a_table_has_something_that_computes_it(problem):
    for network, advanced in ADVANCED.items():
        assert list(Bench(problem, budget_of(network, "smoke"), advanced).methods) == Bench.rows(advanced)
    assert len(Table2(Settings(seeds=3)).cells()) == 3 * len(Bench.rows(ADVANCED["small_convnet"]))


@pytest.mark.parametrize(
    "method",
    [
        *("metricopt_sgd", "metricopt_paper", "metricopt_letter", "metricopt_learned", "metricopt"),
        *("loss_dense", "moew", "ala_weights", "rambo"),
    ],
)
@pytest.mark.filterwarnings("ignore::metricopt.core.errors.MetricOptWarning")
def test_no_method_takes_more_queries_than_granted(problem, method):
    bench = Bench(problem, BUDGETS["smoke"], ADVANCED["resnet32"])
    found = bench.methods[method]()
    assert 0 < found.queries <= bench.budget.queries and bool(found.phi.isfinite().all())
