"""Spearman's rank correlation."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from metricopt.core.ranks import rank_correlation


def test_it_is_spearmans_with_ties_too():
    draw = np.random.default_rng(0)
    a = draw.integers(0, 9, 50).astype(float)
    b = a + draw.integers(0, 9, 50)
    assert rank_correlation(a, b) == pytest.approx(spearmanr(a, b).statistic)


def test_pairs_without_two_finite_numbers_are_left_out():
    assert rank_correlation([1.0, 2.0, math.nan, 3.0], [1.0, 2.0, 9.0, math.inf]) == pytest.approx(1.0)


@pytest.mark.parametrize("constant", [[0.1] * 3, torch.full((3,), 0.1)])
def test_a_constant_ranks_nothing(constant):
    assert rank_correlation(constant, [1.0, 2.0, 3.0]) == 0.0
    assert math.isnan(rank_correlation([1.0, 2.0, 3.0], constant, unknown=math.nan))
