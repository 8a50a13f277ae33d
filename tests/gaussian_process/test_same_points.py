import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from metricopt.gaussian_process import Posterior, fit, posterior, smooth, smooth_together

RATIOS = torch.tensor([1e-4, 2e-3, 5e-2, 1.0], dtype=torch.float64)


def lengths(n: int) -> torch.Tensor:
    """From half a gap between observations to the whole path."""
    return torch.logspace(math.log10(0.5 / (n - 1)), 0, 5, dtype=torch.float64)


def paths(batch: int, n: int, steps: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Decays, waves and pure noise, observed with more or less noise at n of the steps, the same for all."""
    draw = torch.Generator().manual_seed(seed)
    x = (torch.randperm(steps, generator=draw)[:n] / steps).double()
    rate, kind = 20 * torch.rand(batch, 1, generator=draw).double(), torch.arange(batch)[:, None] % 3
    plain = torch.where(kind == 0, torch.exp(-rate * x), torch.where(kind == 1, torch.sin(rate * x), 0.0))
    noise = 10.0 ** (-4 * torch.rand(batch, 1, generator=draw).double())
    return x, plain + noise * torch.randn(batch, n, generator=draw, dtype=torch.float64)


def every_step(steps: int) -> torch.Tensor:
    return torch.arange(steps, dtype=torch.float64) / steps


def one_by_one(x: torch.Tensor, y: torch.Tensor, query: torch.Tensor, **grid) -> Posterior:
    points = x.unsqueeze(-1)
    return posterior(points, y, query.expand(len(y), -1).unsqueeze(-1), fit(points, y, **grid))


def close(known: Posterior, expected: Posterior) -> None:
    torch.testing.assert_close(known.mean, expected.mean, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(known.std, expected.std, rtol=1e-5, atol=1e-9)


def agree(x: torch.Tensor, y: torch.Tensor, steps: int, noise_floor: float = 0.0) -> None:
    grid = {"length_scales": lengths(len(x)), "noise_ratios": RATIOS, "noise_floor": noise_floor}
    each = x.expand(len(y), -1)
    known, found = smooth_together(x, y, every_step(steps), **grid)
    wanted = fit(each.unsqueeze(-1), y, **grid)
    for name in ("length_scale", "signal_variance", "noise_variance", "mean"):
        torch.testing.assert_close(getattr(found, name), getattr(wanted, name), rtol=1e-6, atol=1e-8)
    close(known, one_by_one(each, y, every_step(steps), **grid))


@settings(max_examples=40, deadline=None)
@given(
    batch=st.integers(1, 20),
    n=st.integers(2, 60),
    spare=st.integers(0, 300),
    noise_floor=st.sampled_from([0.0, 0.01, 0.3]),
    seed=st.integers(0, 1000),
)
def test_members_that_share_points_are_told_what_each_is_told_alone(batch, n, spare, noise_floor, seed):
    agree(*paths(batch, n, n + spare, seed), n + spare, noise_floor)


@pytest.mark.parametrize(("n", "steps"), [(10, 2000), (50, 1000), (50, 50), (120, 400)])
def test_the_same_holds_on_long_and_short_paths(n, steps):
    agree(*paths(64, n, steps, seed=1), steps, 0.005)


def test_the_same_point_may_be_observed_twice():
    x, y = paths(12, 30, 100, seed=0)
    x[1] = x[0]
    agree(x, y, 100)


@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(4, 30),
    missing=st.floats(0, 1),
    elsewhere=st.floats(0, 1),
    noise_floor=st.sampled_from([0.0, 0.1]),
    seed=st.integers(0, 99),
)
def test_members_with_missing_observations_or_other_points_are_apart(n, missing, elsewhere, noise_floor, seed):
    x, y = paths(9, n, 200, seed)
    draw = torch.Generator().manual_seed(seed)
    each = x.repeat(len(y), 1)
    each[torch.rand(9, generator=draw) < elsewhere, 0] += 0.123
    gone = (torch.rand(9, 1, generator=draw) < missing) & (torch.rand(9, n, generator=draw) < 0.3)
    gone[:, :2] = False
    y = torch.where(gone, torch.nan, y)
    grid = {"length_scales": lengths(n), "noise_ratios": RATIOS, "noise_floor": noise_floor}
    close(smooth(each, y, every_step(200), **grid), one_by_one(each, y, every_step(200), **grid))


@pytest.mark.parametrize("n", [3, 10, 25, 50])
def test_constant_observations_stay_constant(n):
    x, _ = paths(12, n, 200, seed=0)
    grid = {"length_scales": lengths(n), "noise_ratios": RATIOS}
    known, _ = smooth_together(x, torch.full((12, n), 0.25), every_step(200), **grid)
    torch.testing.assert_close(known.mean, torch.full_like(known.mean, 0.25), rtol=0, atol=1e-7)
    assert bool((known.std < 1e-5).all())


@pytest.mark.parametrize("n", [6, 20, 50])
def test_it_is_scikit_learns_posterior_at_the_hyperparameters_that_were_found(n):
    steps = 150
    x, y = paths(12, n, steps, seed=3)
    grid = {"length_scales": lengths(n), "noise_ratios": RATIOS, "noise_floor": 0.01}
    known, found = smooth_together(x, y, every_step(steps), **grid)
    for member in range(len(y)):
        kernel = ConstantKernel(found.signal_variance[member].item()) * RBF(found.length_scale[member].item())
        noise, mean = found.noise_variance[member].item(), found.mean[member].item()
        theirs = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None)
        theirs.fit(x[:, None].numpy(), y[member].numpy() - mean)
        expected, std = theirs.predict(every_step(steps)[:, None].numpy(), return_std=True)
        np.testing.assert_allclose(known.mean[member], expected + mean, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(known.std[member], std, rtol=1e-5)
