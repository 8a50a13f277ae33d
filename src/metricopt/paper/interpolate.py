"""A cost and its standard deviation at every step of a path, from the few steps at which the metric was queried."""

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from metricopt.core.errors import ObservationError
from metricopt.core.records import LabelledTrajectory, Trajectory
from metricopt.core.registry import Registry
from metricopt.gaussian_process import smooth

# Below it 1/s_t would let the observed steps outweigh all others when the metric's own noise is not known.
SMALLEST_STD = 1e-4
# On simulated decaying and wiggling costs a finer grid predicted no better, with 2 to 10 observations.
LENGTH_SCALES = 5
NOISE_RATIOS = (1e-4, 2e-3, 5e-2, 1.0)

# From a usable trajectory to mean and deviation, each (tasks, steps).
Interpolation = Callable[[Trajectory], tuple[Tensor, Tensor]]
INTERPOLATIONS: Registry[Interpolation] = Registry("interpolation")


def interpolate(
    trajectory: Trajectory, *, method: Literal["gp", "linear"] = "gp", uncertainty: bool = True
) -> LabelledTrajectory:
    """The same paths, labelled with the interpolated cost M_t and its standard deviation s_t at every step.

    Failed observations are ignored, and tasks with fewer than two usable ones are left out.

    Args:
        trajectory: Paths with sparse observations.
        method: `gp`, a Gaussian process over time, or `linear`, straight lines with no uncertainty of their own.
        uncertainty: If False, every s_t is the average one: the ablation without uncertainty. It is not 1 or 0, so
            that the Fisher ratio, which divides by s_t, keeps its scale and loses only the differences.

    Raises:
        ObservationError: No task has two usable observations.

    Example:
        >>> steps = torch.tensor([[0, 4, 9]])
        >>> path = Trajectory(torch.zeros(1, 10, 2), torch.zeros(1, 10), steps, torch.tensor([[0.5, 0.3, 0.2]]), 0.01)
        >>> labelled = interpolate(path)
        >>> labelled.mean.shape, bool(labelled.std.min() >= 0.01)
        (torch.Size([1, 10]), True)
    """
    usable = _usable(trajectory)
    floor = max(trajectory.noise_std, SMALLEST_STD)
    mean, std = INTERPOLATIONS[method](usable)
    std = std.float().clamp_min_(floor)
    if not uncertainty:
        std = torch.full_like(std, std.mean().item())
    return LabelledTrajectory(usable.phi, mean.float().clamp_(0, 1), std)


@INTERPOLATIONS.add("gp")
@torch.inference_mode()  # dozens of small operations, each of them faster where none can be differentiated
def _gaussian_process(trajectory: Trajectory) -> tuple[Tensor, Tensor]:
    steps, observations = trajectory.phi.shape[1], trajectory.observed_steps.shape[1]
    device = trajectory.costs.device
    # Below half the usual gap between observations the data cannot tell one length from another, and the mean would
    # fall back to the average between any two of them; above the whole path all are alike.
    shortest = max(2 / steps, 0.5 / (observations - 1))
    length_scales = [shortest ** (1 - i / (LENGTH_SCALES - 1)) for i in range(LENGTH_SCALES)]
    known = smooth(
        trajectory.observed_steps.double() / steps,
        trajectory.costs,
        torch.arange(steps, dtype=torch.float64, device=device) / steps,
        length_scales=torch.tensor(length_scales, dtype=torch.float64, device=device),
        noise_ratios=torch.tensor(NOISE_RATIOS, device=device),
        noise_floor=trajectory.noise_std,
    )
    return known.mean, known.std


@INTERPOLATIONS.add("linear")
def _lines(trajectory: Trajectory) -> tuple[Tensor, Tensor]:
    tasks, steps, _ = trajectory.phi.shape
    usable = torch.isfinite(trajectory.costs)
    # Failed observations sort behind all others and are never reached.
    times, order = torch.where(usable, trajectory.observed_steps.double(), torch.inf).sort(1)
    costs = trajectory.costs.double().gather(1, order)
    every_step = torch.arange(steps, dtype=torch.float64, device=costs.device).expand(tasks, -1).contiguous()
    last = usable.sum(1, keepdim=True) - 1
    right = torch.searchsorted(times, every_step).clamp_min(1).minimum(last)  # (tasks, steps)
    start, end = times.gather(1, right - 1), times.gather(1, right)
    # Constant before the first and after the last observation; the same step observed twice is no slope.
    share = ((every_step - start) / (end - start).clamp_min(1)).clamp(0, 1)
    mean = torch.lerp(costs.gather(1, right - 1), costs.gather(1, right), share)
    return mean, torch.zeros_like(mean)


def _usable(trajectory: Trajectory) -> Trajectory:
    if not len(trajectory.costs):
        raise ObservationError("there are no paths to interpolate; collect at least one task")
    if math.isfinite(float(trajectory.costs.sum())):
        return trajectory
    counts = torch.isfinite(trajectory.costs).sum(1)  # (tasks,)
    enough = counts >= 2
    if enough.all():
        return trajectory
    if not enough.any():
        raise ObservationError(
            f"no task has more than {int(counts.max())} usable metric observation out of "
            f"{trajectory.costs.shape[1]}; interpolation needs at least 2: see why the metric fails, or observe more"
        )
    return trajectory.rows(enough)
