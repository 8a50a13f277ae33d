import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metricopt.paper.orthonormal import MANY, combinations_of_few, combinations_of_many, orthonormal_combinations


def vectors(population, size, dim, seed):
    return np.random.default_rng(seed).normal(size=(population, size, dim))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(1, 5), st.integers(1, 7), st.integers(0, 10_000))
def test_one_by_one_and_all_at_once_give_the_same_orthonormal_vectors(population, size, dim, seed):
    rows = vectors(population, size, dim, seed)
    rows[:, -1] = 0.0  # one that adds nothing
    grams = rows @ rows.swapaxes(1, 2)
    few, many = combinations_of_few(grams), combinations_of_many(grams)
    np.testing.assert_allclose(few[0], many[0], atol=1e-6)
    assert few[1].tolist() == many[1].tolist() == [min(size - 1, dim)] * population
    basis = few[0] @ rows
    expected = np.broadcast_to(np.diag(np.arange(size) < min(size - 1, dim)).astype(float), (population, size, size))
    np.testing.assert_allclose(basis @ basis.swapaxes(1, 2), expected, atol=1e-6)


@pytest.mark.parametrize("population", [MANY - 1, MANY])
def test_either_way_may_be_chosen(population):
    rows = vectors(population, 3, 5, seed=0)
    grams = rows @ rows.swapaxes(1, 2)
    np.testing.assert_allclose(orthonormal_combinations(grams)[0], combinations_of_few(grams)[0], atol=1e-9)
