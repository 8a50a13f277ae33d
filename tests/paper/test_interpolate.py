import numpy as np
import pytest
import torch

from metricopt.core.errors import ObservationError, UnknownNameError
from metricopt.core.records import Trajectory
from metricopt.paper.interpolate import SMALLEST_STD, interpolate

STEPS = 50


def trajectory(steps: list[list[int]], costs: list[list[float]], noise_std: float = 0.01) -> Trajectory:
    phi = torch.randn(len(steps), STEPS, 4, generator=torch.Generator().manual_seed(0))
    return Trajectory(phi, torch.zeros(len(steps), STEPS), torch.tensor(steps), torch.tensor(costs), noise_std)


def decay(step: float) -> float:
    return 0.2 + 0.3 * float(np.exp(-3 * step / STEPS))


def decaying(observed: list[int], noise_std: float = 0.001) -> Trajectory:
    return trajectory([observed], [[decay(step) for step in observed]], noise_std)


def test_a_smooth_cost_is_recovered_between_its_observations():
    labelled = interpolate(decaying([0, 6, 13, 25, 38, 49]))
    expected = torch.tensor([[decay(step) for step in range(STEPS)]])
    torch.testing.assert_close(labelled.mean, expected, atol=0.005, rtol=0)


def test_labels_are_float32_and_shaped_like_the_path():
    path = decaying([0, 20, 49])
    labelled = interpolate(path)
    assert labelled.phi is path.phi
    assert labelled.mean.shape == labelled.std.shape == (1, STEPS)
    assert labelled.mean.dtype == labelled.std.dtype == torch.float32


@pytest.mark.parametrize("uncertainty", [True, False])
def test_labels_can_be_targets_of_a_loss_that_is_differentiated(uncertainty):
    labelled = interpolate(decaying([0, 20, 49]), uncertainty=uncertainty)
    value = torch.ones(1, STEPS, requires_grad=True)
    (value * labelled.mean / labelled.std).sum().backward()
    torch.testing.assert_close(value.grad, labelled.mean / labelled.std)


def test_uncertainty_grows_with_the_distance_from_observations():
    std = interpolate(decaying([0, 5, 10, 44, 49])).std[0]
    assert std[27] > std[15] > std[5]


@pytest.mark.parametrize(("noise_std", "floor"), [(0.03, 0.03), (0.0, SMALLEST_STD)])
def test_no_step_is_more_certain_than_one_observation(noise_std, floor):
    std = interpolate(decaying([0, 20, 49], noise_std)).std
    assert std.min().item() >= np.float32(floor)


@pytest.mark.parametrize("observed", [[0, 49], [10, 12], [0, 25, 49], [20, 25, 30]])
def test_two_or_three_points_give_values_between_them_and_doubt_far_away(observed):
    path = trajectory([observed], [np.linspace(0.3, 0.2, len(observed)).tolist()], 0.001)
    labelled = interpolate(path)
    between = labelled.mean[0, observed[0] : observed[-1] + 1]
    assert between.min() > 0.2 - 0.01 and between.max() < 0.3 + 0.01
    far = int(np.argmax([min(abs(step - seen) for seen in observed) for step in range(STEPS)]))
    assert labelled.std[0, far] > 2 * 0.001


def test_noise_is_smoothed_and_not_learned_as_signal():
    generator = torch.Generator().manual_seed(0)
    observed = torch.linspace(0, STEPS - 1, 10).long().expand(200, -1)
    costs = 0.3 + 0.02 * torch.randn(200, 10, generator=generator)
    path = Trajectory(torch.zeros(200, STEPS, 1), torch.zeros(200, STEPS), observed, costs, 0.02)
    error = (interpolate(path).mean - 0.3).square().mean().sqrt()
    assert error < 0.6 * 0.02  # the best possible, one mean of ten, is 0.32 of the noise


def test_failed_observations_are_ignored():
    with_failure = trajectory([[0, 10, 20, 49]], [[0.5, float("nan"), 0.4, 0.3]])
    without = trajectory([[0, 20, 49]], [[0.5, 0.4, 0.3]])
    torch.testing.assert_close(
        interpolate(with_failure, method="linear").mean, interpolate(without, method="linear").mean
    )
    labelled = interpolate(with_failure)
    assert bool(torch.isfinite(labelled.mean).all()) and bool(torch.isfinite(labelled.std).all())
    torch.testing.assert_close(labelled.mean[0, [0, 20, 49]], torch.tensor([0.5, 0.4, 0.3]), atol=0.02, rtol=0)


def test_tasks_with_fewer_than_two_usable_observations_are_left_out():
    nan = float("nan")
    path = trajectory([[0, 49], [0, 49], [5, 40]], [[0.5, 0.3], [nan, 0.3], [0.2, 0.1]])
    labelled = interpolate(path)
    assert torch.equal(labelled.phi, path.phi[[0, 2]])
    torch.testing.assert_close(labelled.mean[0], interpolate(path.rows(torch.tensor([0]))).mean[0])


def test_without_any_usable_task_the_message_says_what_is_missing():
    nan = float("nan")
    with pytest.raises(ObservationError, match="no task has more than 1 usable metric observation out of 2"):
        interpolate(trajectory([[0, 49], [3, 30]], [[nan, 0.3], [nan, nan]]))


def test_means_stay_within_the_bounds_of_a_cost():
    labelled = interpolate(trajectory([[0, 10, 20, 25]], [[0.6, 0.4, 0.05, 0.0]], 0.001))
    assert labelled.mean.min() >= 0 and labelled.mean.max() <= 1


def test_lines_are_numpys_with_a_constant_deviation():
    observed, costs = [[0, 7, 30], [40, 4, 12]], [[0.5, 0.1, 0.9], [0.2, 0.6, 0.4]]
    labelled = interpolate(trajectory(observed, costs, 0.02), method="linear")
    for task in range(2):
        order = np.argsort(observed[task])
        expected = np.interp(np.arange(STEPS), np.array(observed[task])[order], np.array(costs[task])[order])
        np.testing.assert_allclose(labelled.mean[task], expected, atol=1e-6)
    torch.testing.assert_close(labelled.std, torch.full_like(labelled.std, 0.02))


def test_without_uncertainty_the_means_are_the_same_and_the_deviation_is_the_average_one():
    path = decaying([0, 5, 10, 44, 49])
    plain, ablated = interpolate(path), interpolate(path, uncertainty=False)
    assert torch.equal(plain.mean, ablated.mean)
    torch.testing.assert_close(ablated.std, plain.std.mean().expand_as(plain.std))


def test_an_unknown_method_gets_a_hint():
    with pytest.raises(UnknownNameError, match="did you mean 'linear'"):
        interpolate(decaying([0, 49]), method="linaer")  # pyright: ignore[reportArgumentType]


def test_no_paths_at_all_are_refused_in_one_sentence():
    path = decaying([0, 20, 49]).rows(torch.zeros(1, dtype=torch.bool))
    with pytest.raises(ObservationError, match="no paths to interpolate; collect at least one task"):
        interpolate(path)
