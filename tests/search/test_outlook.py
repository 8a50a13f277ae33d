import torch

from metricopt.search.outlook import measured
from metricopt.task.views import LABELS


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_near_the_centre_outputs_are_those_of_the_network_to_first_order(small_task, asked):
    task = small_task(rows=200)
    probe = task.probe()
    phi = 0.3 * numbers(task.dim, seed=3)
    outlook, _ = measured(probe, phi, rows=200)
    errors = []
    for size in (0.1, 0.05):
        steps = size * torch.nn.functional.normalize(numbers(20, task.dim, seed=4))
        errors.append(float((outlook.outputs(steps) - probe.shown(phi + steps, rows=200)).abs().mean()))
    assert errors[1] < 0.35 * errors[0]  # second order: a quarter at half the distance
    assert torch.equal(outlook.outputs(torch.zeros(1, task.dim))[0], probe.shown(phi[None], rows=200)[0])
    assert not asked


def test_around_another_phi_the_outputs_are_exact_there(small_task):
    task = small_task(rows=200)
    probe = task.probe()
    outlook, _ = measured(probe, torch.zeros(task.dim), rows=200)
    phi = 0.1 * numbers(task.dim, seed=5)
    moved = outlook.around(probe, phi, rows=200)
    assert torch.equal(moved.origin, probe.shown(phi[None], rows=200)[0])
    assert torch.equal(moved.centre, phi)


def test_a_descent_lowers_what_its_slopes_weigh_and_stays_within_its_bound(small_task):
    task = small_task(rows=200)
    probe = task.probe()
    outlook, geometry = measured(probe, torch.zeros(task.dim), rows=200)
    # A value that falls with every row of class 2.
    slopes = torch.zeros(1, 200, 3)
    slopes[..., 2] = -1.0
    before = float((LABELS.features(outlook.origin[None]) * slopes.flatten(1)).sum())
    ways = outlook.descend(LABELS, slopes.flatten(1), geometry, bound=0.8, iterations=20)
    assert all(float(way.norm(dim=1).max()) <= 0.8 + 1e-5 for way in ways)
    found = probe.shown(geometry.plain(ways[-1]), rows=200)  # by the network itself
    after = float((LABELS.features(found) * slopes.flatten(1)).sum())
    assert after < before - 0.5
