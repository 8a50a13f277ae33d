"""Finetuning of copies of a network by the loss, stopped where the loss of rows left out was lowest.

Copies of a network without convolutions take their steps together (`vmap`), which is up to twice as fast; of one with
convolutions one after another, since a population of those is several times slower.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from metricopt.core.seeding import derived_seed
from metricopt.data.dataset import Examples
from metricopt.losses import Loss
from metricopt_lab.rivals.weights.batches import Batches
from metricopt_lab.rivals.weights.state import State, state_of

_TINY = 1e-11  # Adam's, divided by about the rate, since changes are learnt in units of it


@dataclass(frozen=True, eq=False)
class Stopped:
    """A finetuned state.

    Attributes:
        state: Weights and buffers.
        epoch: After which epoch, from 1 on.
        loss: Of the rows left out; NaN if there were none.
    """

    state: State
    epoch: int
    loss: float


@dataclass(frozen=True, eq=False)
class Stopping:
    """When to stop: at the lowest loss of `rows`, or after a fixed number of epochs of the same schedule.

    Attributes:
        rows: Rows left out.
        epoch: The epoch; None to look for the best.
    """

    rows: Examples | None = None
    epoch: int | None = None


def finetuned(
    net: nn.Module,
    plans: Sequence[Batches],
    loss: Loss,
    *,
    epochs: int,
    rates: Sequence[float],
    stopping: Stopping,
    seed: int,
) -> list[Stopped]:
    """A finetuned copy of `net` for each plan of mini-batches, with Adam at its rate, which falls to 0 as a cosine.

    BatchNorm learns in train mode, so its statistics follow the new rows.
    """
    apart = any(isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d) for module in net.modules())
    groups = [[at] for at in range(len(plans))] if apart else [list(range(len(plans)))]
    found: list[Stopped] = []
    for group in groups:
        # Dropout draws from torch's global state, which is none of ours to move.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derived_seed(seed, "rival", "dropout"))
            found += _population(net, [plans[at] for at in group], loss, epochs, [rates[at] for at in group], stopping)
    return found


def _population(
    net: nn.Module, plans: Sequence[Batches], loss: Loss, epochs: int, rates: Sequence[float], stopping: Stopping
) -> list[Stopped]:
    model, best = deepcopy(net).train(), dict[int, Stopped]()
    start = {name: tensor.unsqueeze(0).repeat(len(plans), *[1] * tensor.ndim) for name, tensor in state_of(net).items()}
    # Changes in units of each member's rate: Adam, to which scale is nothing, then has one rate for all.
    changes = {name: torch.zeros_like(start[name], requires_grad=True) for name, _ in model.named_parameters()}
    units = {name: torch.tensor(rates).view(-1, *[1] * (start[name].ndim - 1)) for name in changes}
    steps, data = plans[0].steps, plans[0].data
    optimizer = torch.optim.Adam(changes.values(), lr=1.0, eps=_TINY, fused=True)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs * steps)
    for epoch in range(1, (stopping.epoch or epochs) + 1):
        orders = [plan.epoch(epoch - 1) for plan in plans]
        for step in range(steps):
            rows = torch.stack([order[step] for order in orders])  # (population, batch)
            state = start | {name: start[name] + units[name] * change for name, change in changes.items()}
            optimizer.zero_grad()
            _total_loss(model, state, loss, data.inputs[rows], data.targets[rows]).backward()
            optimizer.step()
            cosine.step()
        with torch.no_grad():
            state = start | {name: start[name] + units[name] * change for name, change in changes.items()}
            for member in range(len(plans)):
                _keep_best(
                    best, net, {name: each[member] for name, each in state.items()}, member, epoch, stopping, loss
                )
    return [best[member] for member in range(len(plans))]


def _total_loss(model: nn.Module, state: State, loss: Loss, inputs: Tensor, targets: Tensor) -> Tensor:
    """Sum of the members' losses: its gradient is each member's own."""

    def one(member: State, x: Tensor, y: Tensor) -> Tensor:
        return loss(functional_call(model, member, (x,)), y)

    if len(inputs) == 1:
        return one({name: tensor[0] for name, tensor in state.items()}, inputs[0], targets[0])
    return vmap(one, randomness="different")(state, inputs, targets).sum()


def _keep_best(
    best: dict[int, Stopped], net: nn.Module, state: State, member: int, epoch: int, stopping: Stopping, loss: Loss
) -> None:
    if stopping.rows is None:
        value = float("nan")
    else:
        value = float(loss(functional_call(net.eval(), state, (stopping.rows.inputs,)), stopping.rows.targets))
    if stopping.rows is None or member not in best or value < best[member].loss:
        best[member] = Stopped({name: tensor.clone() for name, tensor in state.items()}, epoch, value)
