"""The study of rates: what a factor changes, what it leaves alone, and splits that nothing else reports."""

import pytest
import torch

from metricopt_lab.cells import Settings, experiments
from metricopt_lab.studies.paper_rates import FACTORS, UNREPORTED, PaperRates, rates_text
from metricopt_lab.studies.paper_recipe.ground import ground_of


def test_a_faster_collection_begins_where_the_other_does_and_goes_farther():
    slow = ground_of("smoke", "a9a", seed=UNREPORTED)
    fast = slow.faster(10)
    assert fast.stages.lr == pytest.approx(10 * slow.stages.lr)
    one, other = slow.paths(4).phi, fast.paths(4).phi
    assert torch.equal(one[:, 0], other[:, 0])
    assert ((other[:, -1] - other[:, 0]).norm(dim=1) > (one[:, -1] - one[:, 0]).norm(dim=1)).all()


def test_rates_are_compared_on_splits_that_no_other_experiment_has():
    cells = PaperRates(Settings(seeds=2, scale="smoke")).cells()
    splits = {PaperRates(Settings(scale="smoke")).ground(cell).problem.seed for cell in cells}
    assert splits == {UNREPORTED, UNREPORTED + 1}
    reported = {cell.seed for name in ("table2", "table3", "paper-recipe") for cell in experiments()[name](
        Settings(seeds=5)).cells()}  # fmt: skip
    assert not splits & reported


def test_the_rate_that_is_found_stands_above_its_multiples():
    row = {"scale": "small", "data": "a9a", "seed": 0, "metric": "mcr", "collecting_rate": 1.0, "path_moved": 0.3,
           "path_ended": 0.8, "rank_correlation": 0.6, "gain": 0.04}  # fmt: skip
    lines = rates_text([row | {"factor": factor} for factor in reversed(FACTORS)]).splitlines()
    assert [line.split("|")[1].strip() for line in lines[6:10]] == ["as found", "3 times", "10 times", "30 times"]
