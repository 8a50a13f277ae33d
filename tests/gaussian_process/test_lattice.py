import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from metricopt.gaussian_process import Hyperparameters, Posterior, fit, posterior, rbf, smooth
from metricopt.gaussian_process.features import expected_rank, features
from metricopt.gaussian_process.systems import solved

RATIOS = torch.tensor([1e-4, 2e-3, 5e-2, 1.0], dtype=torch.float64)


def lengths(n: int) -> torch.Tensor:
    """From half a gap between observations to the whole path."""
    return torch.logspace(math.log10(0.5 / (n - 1)), 0, 5, dtype=torch.float64)


def paths(batch: int, n: int, steps: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Decays, waves and pure noise, observed with more or less noise."""
    draw = torch.Generator().manual_seed(seed)
    observed = torch.rand(batch, steps, generator=draw).argsort(1)[:, :n]
    rate, kind = 20 * torch.rand(batch, 1, generator=draw).double(), torch.arange(batch)[:, None] % 3
    x = observed.double() / steps
    smooth_part = torch.where(kind == 0, torch.exp(-rate * x), torch.where(kind == 1, torch.sin(rate * x), 0.0))
    noise = 10.0 ** (-4 * torch.rand(batch, 1, generator=draw).double())
    return observed, smooth_part + noise * torch.randn(batch, n, generator=draw, dtype=torch.float64)


def densely(
    observed: torch.Tensor, y: torch.Tensor, steps: int, noise_floor: float
) -> tuple[Posterior, Hyperparameters]:
    x = observed.double().unsqueeze(-1) / steps
    every = (torch.arange(steps, dtype=torch.float64) / steps).expand(len(y), -1).unsqueeze(-1)
    grid = {"length_scales": lengths(y.shape[1]), "noise_ratios": RATIOS}
    found = fit(x, y, noise_floor=noise_floor, **grid)
    return posterior(x, y, every, found), found


def agree(observed: torch.Tensor, y: torch.Tensor, steps: int, noise_floor: float = 0.0) -> None:
    grid = {"length_scales": lengths(y.shape[1]), "noise_ratios": RATIOS}
    ours, found = smooth(observed, y, steps=steps, noise_floor=noise_floor, **grid)
    expected, wanted = densely(observed, y, steps, noise_floor)
    for name in ("length_scale", "signal_variance", "noise_variance", "mean"):
        torch.testing.assert_close(getattr(found, name), getattr(wanted, name), rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(ours.mean, expected.mean, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(ours.std, expected.std, rtol=1e-5, atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(
    batch=st.integers(1, 20),
    n=st.integers(2, 60),
    spare=st.integers(0, 300),
    noise_floor=st.sampled_from([0.0, 0.01, 0.3]),
    seed=st.integers(0, 1000),
)
def test_every_step_is_told_what_the_general_process_tells(batch, n, spare, noise_floor, seed):
    agree(*paths(batch, n, n + spare, seed), n + spare, noise_floor)


@settings(max_examples=20, deadline=None)
@given(
    n=st.integers(4, 60), share=st.floats(0.05, 0.6), noise_floor=st.sampled_from([0.0, 0.1]), seed=st.integers(0, 99)
)
def test_missing_observations_are_as_if_they_were_not_there(n, share, noise_floor, seed):
    observed, y = paths(9, n, 200, seed)
    gone = torch.rand(9, n, generator=torch.Generator().manual_seed(seed)) < share
    gone[:, :2] = False
    agree(observed, torch.where(gone, torch.nan, y), 200, noise_floor)


@pytest.mark.parametrize(("n", "steps"), [(10, 2000), (50, 1000), (50, 50), (120, 400)])
def test_a_population_gets_what_the_general_process_tells_on_long_and_short_paths(n, steps):
    agree(*paths(64, n, steps, seed=1), steps, 0.005)


def test_the_same_step_may_be_observed_twice():
    observed, y = paths(12, 30, 100, seed=0)
    observed[:, 1] = observed[:, 0]
    agree(observed, y, 100)


@pytest.mark.parametrize("n", [3, 10, 25, 50])
def test_constant_observations_stay_constant(n):
    observed, _ = paths(12, n, 200, seed=0)
    grid = {"length_scales": lengths(n), "noise_ratios": RATIOS}
    known, _ = smooth(observed, torch.full((12, n), 0.25), steps=200, **grid)
    torch.testing.assert_close(known.mean, torch.full_like(known.mean, 0.25), rtol=0, atol=1e-7)
    assert bool((known.std < 1e-5).all())


@pytest.mark.parametrize("n", [6, 20, 50])
def test_it_is_scikit_learns_posterior_at_the_hyperparameters_that_were_found(n):
    steps = 150
    observed, y = paths(12, n, steps, seed=3)
    known, found = smooth(observed, y, steps=steps, length_scales=lengths(n), noise_ratios=RATIOS, noise_floor=0.01)
    for member in range(len(y)):
        kernel = ConstantKernel(found.signal_variance[member].item()) * RBF(found.length_scale[member].item())
        noise, mean = found.noise_variance[member].item(), found.mean[member].item()
        theirs = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None)
        theirs.fit(observed[member, :, None].numpy() / steps, y[member].numpy() - mean)
        expected, std = theirs.predict(np.arange(steps)[:, None] / steps, return_std=True)
        np.testing.assert_allclose(known.mean[member], expected + mean, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(known.std[member], std, rtol=1e-5)


@settings(max_examples=30, deadline=None)
@given(steps=st.integers(2, 400), length=st.floats(0.02, 3.0))
def test_features_give_every_correlation_of_the_path_with_about_the_expected_rank(steps, length):
    some = features(steps, torch.tensor(length, dtype=torch.float64))
    every = (torch.arange(steps, dtype=torch.float64) / steps).unsqueeze(-1)
    torch.testing.assert_close(some @ some.mT, rbf(every, every, length), rtol=0, atol=5e-12)
    assert some.shape[1] <= 1.1 * expected_rank(length) + 4


@pytest.mark.parametrize("n", [1, 4, 20, 21, 40])
def test_systems_are_solved_alike_by_elimination_and_by_factors(n):
    draw = torch.Generator().manual_seed(n)
    root = torch.randn(300, n, n, generator=draw, dtype=torch.float64) / math.sqrt(n)
    matrix, border = root @ root.mT, torch.randn(300, n, 2, generator=draw, dtype=torch.float64)
    products, logarithm = solved(matrix, border, RATIOS)
    full = matrix[:, None] + RATIOS[:, None, None] * torch.eye(n, dtype=torch.float64)
    expected = border[:, None].mT @ torch.linalg.solve(full, border[:, None])  # (300, ratios, 2, 2)
    for product, (i, j) in zip(products, ((0, 0), (0, 1), (1, 1)), strict=True):
        torch.testing.assert_close(product, expected[..., i, j], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(logarithm, torch.logdet(full), rtol=1e-9, atol=1e-9)
