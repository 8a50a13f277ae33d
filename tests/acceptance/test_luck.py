"""How lucky a search can be on the rows it was made on: in the end as much as its directions allow."""

import math

import pytest
import torch
from scipy import stats

from metricopt.acceptance.luck import luck


@pytest.mark.parametrize("freedom", [1, 34, 46])
def test_luck_begins_at_nothing_grows_with_the_queries_and_ends_at_the_root_of_the_directions(freedom):
    grown = [luck(freedom, queries) for queries in (0, 50, 150, 500, 2000)]
    assert grown[0] == 0 and grown == sorted(grown)
    assert luck(freedom, 10**9) == pytest.approx(math.sqrt(freedom), rel=1e-3)


def test_the_best_direction_of_nothing_but_noise_looks_better_by_the_root_of_the_directions():
    # Each row likes each of 40 directions by chance; the step chosen is the one that the rows like best together.
    rows, freedom = 2000, 40
    likes = torch.randn(rows, freedom, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    gains = likes @ likes.mean(0)
    seen = float(gains.mean() / (gains.std() / math.sqrt(rows)))
    assert seen == pytest.approx(stats.chi(freedom).mean(), rel=0.25)
    assert seen == pytest.approx(luck(freedom, 10**9), rel=0.25)
