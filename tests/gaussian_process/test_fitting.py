import numpy as np
import pytest
import torch

from metricopt.gaussian_process import fit, log_marginal_likelihood, posterior, rbf

NAMES = ("length_scale", "signal_variance", "noise_variance", "mean")


def problem(batch: int, n: int, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(batch, n, dim, generator=generator, dtype=torch.float64)
    return x, torch.sin(5 * x.sum(-1)) + 0.1 * torch.randn(batch, n, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("how", ["nan", "mask"])
def test_missing_observations_are_as_if_they_were_not_there(how):
    x, y = problem(2, 8, 2)
    kept = torch.tensor([0, 2, 3, 6, 7])
    mask = torch.zeros(2, 8, dtype=torch.bool)
    mask[:, kept] = True
    spoilt = torch.where(mask, y, torch.nan if how == "nan" else 99.0)
    grid = {
        "length_scales": torch.tensor([0.1, 0.4, 1.6]),
        "noise_ratios": torch.tensor([0.01, 0.3]),
        "noise_floor": 0.1,
    }
    found = fit(x, spoilt, mask=None if how == "nan" else mask, **grid)
    wanted = fit(x[:, kept], y[:, kept], **grid)
    for name in NAMES:
        torch.testing.assert_close(getattr(found, name), getattr(wanted, name), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("noise_floor", [0.0, 0.3])
def test_the_grid_finds_the_highest_likelihood_that_respects_the_noise_floor(noise_floor):
    x, y = problem(4, 9, 1)
    lengths, ratios = torch.tensor([0.05, 0.2, 0.8]), torch.tensor([1e-3, 0.1, 2.0])
    found = fit(x, y, length_scales=lengths, noise_ratios=ratios, noise_floor=noise_floor)
    identity = torch.eye(9, dtype=torch.float64)
    # A dense search over signal and mean at every grid point: none may be better, one must come close. Above the best
    # signal the likelihood falls by less than n / 2 for each unit of log signal, and one step is log(10) / 20.
    signals = torch.logspace(-4, 4, 161, dtype=torch.float64)
    axes = torch.cartesian_prod(lengths.double(), ratios.double(), signals, torch.linspace(-0.3, 0.3, 7).double())
    length, ratio, signal, shift = axes[axes[:, 1] * axes[:, 2] >= noise_floor**2].T[..., None, None]
    for member in range(4):
        ours = [item[member] for item in (found.length_scale, found.signal_variance, found.noise_variance, found.mean)]
        covariance = ours[1] * rbf(x[member], x[member], ours[0]) + ours[2] * identity
        best = log_marginal_likelihood(covariance, y[member] - ours[3])
        rivals = log_marginal_likelihood(
            signal * (rbf(x[member], x[member], length[:, 0, 0]) + ratio * identity),
            y[member] - ours[3] - shift[:, 0],
        )
        assert found.noise_variance[member] >= noise_floor**2 * (1 - 1e-12)
        assert rivals.max() - 1e-9 <= best <= rivals.max() + 4.5 * np.log(10) / 20


def test_constant_observations_give_a_finite_flat_posterior():
    x, _ = problem(2, 5, 1)
    y = torch.full((2, 5), 0.25)
    h = fit(x, y, length_scales=torch.tensor([0.2, 1.0]), noise_ratios=torch.tensor([1e-3, 1.0]))
    known = posterior(x, y, torch.rand(2, 7, 1, generator=torch.Generator().manual_seed(1)), h)
    torch.testing.assert_close(known.mean, torch.full_like(known.mean, 0.25))
    assert bool((known.std < 1e-5).all())


@pytest.mark.parametrize(("n", "lengths"), [(10, 5), (80, 3)])
def test_a_member_is_fitted_alike_alone_and_in_a_population(n, lengths):
    x, y = problem(64, n, 1)
    grid = {"length_scales": torch.logspace(-1.2, 0, lengths), "noise_ratios": torch.logspace(-3, 0, 4)}
    together = fit(x, y, **grid)
    for member in (0, 31, 63):
        alone = fit(x[member, None], y[member, None], **grid)
        for name in NAMES:
            torch.testing.assert_close(getattr(together, name)[member, None], getattr(alone, name))
