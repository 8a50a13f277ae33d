import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from metricopt.paper.gram_schmidt import orthonormal_combinations


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(1, 5), st.integers(1, 7), st.integers(0, 10_000))
def test_the_combinations_of_any_vectors_are_orthonormal_and_as_many_as_their_rank(population, size, dim, seed):
    rows = np.random.default_rng(seed).normal(size=(population, size, dim))
    rows[:, -1] = 0.0  # one that adds nothing
    combinations = orthonormal_combinations(rows @ rows.swapaxes(1, 2))
    rank = min(size - 1, dim)
    basis = combinations @ rows
    expected = np.diag(np.arange(size) < rank).astype(float)
    np.testing.assert_allclose(
        basis @ basis.swapaxes(1, 2), np.broadcast_to(expected, (population, size, size)), atol=1e-6
    )
    assert combinations.any(2).sum(1).tolist() == [rank] * population


def test_a_vector_that_depends_on_others_is_left_out_and_not_one_of_them():
    first, second = np.array([1.0, 2.0, 0.0]), np.array([0.0, 1.0, 1.0])
    rows = np.stack([first, -2 * first, second])[None]
    basis = (orthonormal_combinations(rows @ rows.swapaxes(1, 2)) @ rows)[0]
    for vector in (first, second):
        np.testing.assert_allclose(vector @ basis.T @ basis, vector, atol=1e-7)
