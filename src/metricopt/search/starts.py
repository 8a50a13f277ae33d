"""Where loss finetuning of phi ends: the points from which, and between which, the search begins."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice

import torch
from torch import Tensor

from metricopt.core.clock import now, since
from metricopt.search.outlook import fitted_to
from metricopt.task.finetuning import finetuning
from metricopt.task.probe import Probe

POINTS = 10
"""Points along each way at which it may be worth stopping."""


TRIAL = 3
"""Steps after which it is decided how many are affordable."""


def loss_starts(
    probe: Probe,
    *,
    steps: int,
    lr: float,
    generator: torch.Generator,
    afford: Callable[[float, int], int] | None = None,
    beat: Callable[[int], None] = lambda _: None,
) -> Tensor:
    """Sound points (at most kinds, dim) of finetuning phi on each kind of mini-batches the task has, all at once.

    It follows the loss only and queries nothing.

    Args:
        probe: Window on the task.
        steps: How many at most.
        lr: Adam's first rate, lowered to zero on the way.
        generator: Of the mini-batches.
        afford: From seconds a step and steps wanted to how many are affordable, asked after a few; as many as named
            if None. It must give the same number again when a run is continued. With fewer steps they begin anew, so
            that the rate comes to zero; with none there are no starts.
        beat: Told of each step.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> task = QuadraticTask(dim=4, noise=0.0)
        >>> ends = loss_starts(task.probe(), steps=200, lr=0.1, generator=torch.Generator().manual_seed(0))
        >>> torch.allclose(ends[0], task.loss_optimum, atol=0.01)
        True
    """
    kinds, batches = probe.start_batches(generator)
    start = torch.zeros(kinds, probe.dim)
    adam = partial(torch.optim.Adam, lr=lr)

    def stepping(count: int) -> Iterator[Tensor]:
        for step in finetuning(probe.task, start, batches, steps=count, optimizer=adam, cosine=True):
            beat(1)
            yield step.phi.clone()

    path = stepping(steps)
    if afford is not None and steps > TRIAL:
        first, taken, began = [], [], now()
        for phi in islice(path, TRIAL):
            first.append(phi)
            taken.append(since(began))
            began = now()
        affordable = min(steps, afford(min(taken), steps))
        if affordable < 1:
            return torch.zeros(0, probe.dim)
        path = chain(first, path) if affordable == steps else stepping(affordable)
        steps = affordable
    stops = {round(steps * (k + 1) / POINTS) for k in range(POINTS)}
    kept = [phi for number, phi in enumerate(path, start=1) if number in stops]
    starts = probe.sound_starts(torch.stack(kept))
    return starts[torch.isfinite(starts).all(1)]


def input_start(probe: Probe, *, rows: int) -> Tensor:
    """phi (1, dim) that predicts as if the network had been fitted to the metric's inputs; (0, dim) if that has none.

    It looks at inputs only: neither labels nor queries.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> input_start(QuadraticTask(dim=4).probe(), rows=10).shape
        torch.Size([0, 4])
    """
    outputs = probe.shown_by_inputs(rows=rows)
    if outputs is None or not bool(outputs.isfinite().all()):
        return torch.zeros(0, probe.dim)
    phi = fitted_to(probe, outputs, rows=rows)[None]
    return phi[torch.isfinite(phi).all(1)]
