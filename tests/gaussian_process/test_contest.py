import pytest
import torch

from metricopt.gaussian_process import rbf
from metricopt.gaussian_process.contest import Contest
from metricopt.gaussian_process.fitting import Centred, Evidence, profiled
from metricopt.gaussian_process.systems import solved

LENGTHS = torch.tensor([0.01, 0.03, 0.1, 0.3, 1.0], dtype=torch.float64)
RATIOS = torch.tensor([1e-4, 2e-3, 5e-2, 1.0], dtype=torch.float64)


def problem(kind: str, missing: float) -> tuple[torch.Tensor, Centred]:
    draw = torch.Generator().manual_seed(0)
    points = torch.rand(24, 50, generator=draw, dtype=torch.float64)
    noise = torch.randn(24, 50, generator=draw, dtype=torch.float64)
    rate = 4 * torch.rand(24, 1, generator=draw, dtype=torch.float64)
    y = {
        "decays": torch.exp(-rate * points) + 0.03 * noise,
        "waves": torch.sin(40 * rate * points) + 0.01 * noise,
        "noise": noise,
        "constant": torch.ones_like(noise),
    }[kind]
    return points, Centred.of(y, torch.rand(24, 50, generator=draw) >= missing)


def in_full(points: torch.Tensor, data: Centred, lengths: torch.Tensor) -> Evidence:
    """Every grid point one after the other, with the missing observations really taken out."""
    found = torch.empty(4, len(points), len(lengths), len(RATIOS), dtype=torch.float64)
    for member, mask in enumerate(data.mask):
        x, right = points[member, mask, None], data.right[member, mask]
        for i, length in enumerate(lengths):
            products, logarithm = solved(rbf(x, x, length)[None], right[None], RATIOS)
            found[:3, member, i], found[3, member, i] = products[:, 0], logarithm[0]
    return Evidence(*found)


@pytest.mark.parametrize("noise_floor", [0.0, 0.05])
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("kind", ["decays", "waves", "noise", "constant"])
@pytest.mark.parametrize("known", [0, 3])
def test_what_is_left_out_is_worse_and_all_else_is_right(kind, missing, noise_floor, known):
    points, data = problem(kind, missing)
    full, short = in_full(points, data, LENGTHS), len(LENGTHS) - known
    longer = [in_full(points, data, length[None]) for length in LENGTHS[short:]]
    ours = Contest(points, data, RATIOS, noise_floor).joined(LENGTHS[:short], longer)
    inside = torch.isfinite(ours.log_determinant)
    for name in ("own", "shared", "ones", "log_determinant"):
        mine, wanted = getattr(ours, name)[inside], getattr(full, name)[inside]
        torch.testing.assert_close(mine, wanted, rtol=1e-8, atol=1e-8)
    deviance, _, _ = profiled(full, data.count, RATIOS, noise_floor)
    worse = deviance - deviance.amin((1, 2), keepdim=True)
    assert bool((worse[~inside] > 0).all())


def test_most_systems_of_smooth_paths_are_never_solved():
    points, data = problem("decays", 0.0)
    longer = [in_full(points, data, length[None]) for length in LENGTHS[2:]]
    ours = Contest(points, data, RATIOS, 0.01).joined(LENGTHS[:2], longer)
    assert torch.isfinite(ours.log_determinant[:, :2]).double().mean() < 0.5
