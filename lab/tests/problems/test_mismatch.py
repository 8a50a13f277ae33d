"""The benchmark's problems: sizes, flips, groups and shifts are what their descriptions say."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from metricopt.core.errors import DataError
from metricopt_lab.data import adult_raw
from metricopt_lab.problems import PROBLEMS
from metricopt_lab.problems.adult import adult
from metricopt_lab.problems.covtype import covtype
from metricopt_lab.problems.from_table import shuffled_parts

needs_covtype = pytest.mark.skipif(
    not Path(os.environ.get("METRICOPT_DATA", "nowhere"), "covtype").exists(),
    reason="CoverType (8 MB) is in the folder METRICOPT_DATA only",
)
SMALL = (3000, 500, 500, 2000)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("weights")


def test_there_are_twenty_problems_of_three_kinds():
    kinds = [spec.kind for _, spec in PROBLEMS.items()]
    assert {kind: kinds.count(kind) for kind in kinds} == {"threshold": 6, "ranking": 5, "mismatch": 9}
    assert all(name == spec.name and spec.description for name, spec in PROBLEMS.items())


@pytest.mark.parametrize("name", [name for name in PROBLEMS if not name.startswith("covtype")])
def test_each_problem_on_adult_uses_every_row_once_and_costs_something(name, cache):
    problem = PROBLEMS[name].build(seed=0, cache=cache, dim=4)
    sizes = [len(part) for part in (problem.train, problem.search, problem.accept, problem.test)]
    assert sizes == [22_000, 6_000, 6_000, 14_842]
    oracle = problem.oracle(queries=1)
    assert oracle.dim == 6
    assert 0 < float(oracle.observe(torch.zeros(1, 6))) < 0.6
    assert problem.name == name
    assert "doi:10.24432/C5XW20" in problem.notes


def test_problems_that_differ_in_the_metric_alone_share_the_trained_network(cache):
    before = {path.name for path in cache.iterdir()}
    nets = [PROBLEMS[name].build(seed=0, cache=cache).net for name in ("a9a_plain_f1", "a9a_aucpr")]
    assert all(torch.equal(a, b) for a, b in zip(*(net.state_dict().values() for net in nets), strict=True))
    assert len({path.name for path in cache.iterdir()} - before) <= 1


def test_flips_turn_three_in_ten_positive_training_labels_and_nothing_else():
    clean, flipped = (
        adult("x", data="adult_raw", metric="g_mean", flipped=part, sizes=SMALL, seed=0, dim=4) for part in (0.0, 0.3)
    )
    positive = clean.train.targets == 1
    assert torch.equal(clean.train.inputs, flipped.train.inputs)
    assert (flipped.train.targets[~positive] == 0).all()
    assert float(flipped.train.targets[positive].double().mean()) == pytest.approx(0.7, abs=0.05)
    assert torch.equal(clean.search.targets, flipped.search.targets)
    assert torch.equal(clean.test.targets, flipped.test.targets)


def test_every_group_of_adult_has_two_hundred_test_rows(cache):
    problem = PROBLEMS["adult_worst_group"].build(seed=0, cache=cache)
    assert problem.test.groups is not None
    counts = torch.bincount(problem.test.groups)
    assert len(counts) == 6
    assert counts.min() >= 200
    table = adult_raw()
    rows = shuffled_parts(np.arange(len(table)), (22_000, 6_000, 6_000, 14_842), seed=0)[3]
    women_neither_white_nor_black = (table.groups["sex"] == 0) & ~np.isin(table.groups["race"], (0, 4))
    assert counts[2] == women_neither_white_nor_black[rows].sum()


def test_the_worst_groups_cost_is_that_of_a_plain_loop(cache):
    problem = PROBLEMS["adult_worst_group"].build(seed=0, cache=cache)
    right = (problem.net(problem.test.inputs) > 0) == problem.test.targets
    assert problem.test.groups is not None
    worst = min(float(right[problem.test.groups == group].double().mean()) for group in range(6))
    phi = torch.zeros(1, problem.task().dim)
    assert problem.costs(phi, "test").item() == pytest.approx(1 - worst)


def test_more_rows_than_there_are_is_an_error():
    with pytest.raises(DataError, match=r"10 rows were asked for 12 in parts of \(6, 6\)"):
        shuffled_parts(np.arange(10), (6, 6), seed=0)


@needs_covtype
def test_the_shifted_problem_trains_in_one_area_and_is_used_in_another():
    problem = covtype("shift", metric="mcr", areas=(0, (2,)), sizes=SMALL, seed=0, dim=4)
    assert set(torch.unique(problem.train.targets).tolist()) <= {0, 1, 4, 6}
    assert {2, 5} <= set(torch.unique(problem.test.targets).tolist())
    assert 0.3 < float(problem.costs(torch.zeros(1, problem.task().dim), "test")) < 0.6


@needs_covtype
def test_noise_replaces_four_in_ten_training_labels():
    clean, noisy = (covtype("noisy", metric="mcr", noisy=part, sizes=SMALL, seed=0, dim=4) for part in (0.0, 0.4))
    changed = float((clean.train.targets != noisy.train.targets).double().mean())
    assert changed == pytest.approx(0.4 * 6 / 7, abs=0.04)  # one in seven hits its old label
    assert torch.equal(clean.accept.targets, noisy.accept.targets)


@needs_covtype
@pytest.mark.parametrize(("areas", "used"), [(None, 4), ((2, (0, 1, 3)), 3)])
def test_by_area_there_are_as_many_rows_of_each_area_and_none_twice(areas, used):
    problem = covtype(
        "areas", metric="worst_group_accuracy", by_area=True, areas=areas, sizes=(3000, 600, 600, 2400), seed=0, dim=4
    )
    parts = (problem.search, problem.accept, problem.test)
    for part, rows in zip(parts, (600, 600, 2400), strict=True):
        assert part.groups is not None
        counts = torch.bincount(part.groups)
        assert sorted(counts[counts > 0].tolist()) == [rows // used] * used
    rows = torch.cat([problem.train.inputs, *(part.inputs for part in parts)])
    assert len(torch.unique(rows, dim=0)) == len(rows)
