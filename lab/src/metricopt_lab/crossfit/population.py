"""Finetuning of several copies of a network at once: the fold networks of cross-fitting, or a rival's variants."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from metricopt.core.seeding import derived_seed
from metricopt.losses import Loss
from metricopt_lab.crossfit.batches import Batches

State = dict[str, Tensor]
"""Weights and buffers by name; of a population with one more dimension in front."""

Backend = Literal["together", "one by one", "whichever is faster"]
AfterEpoch = Callable[[int, State], None]


@dataclass(frozen=True)
class Schedule:
    """How long and how fast.

    Attributes:
        epochs: Passes over a member's validation rows.
        batch: Rows a step.
        lr: First rate of Adam, which falls to 0 as a cosine.
        weight_decay: Decoupled, towards the original weights.
        last_layer: Whether only the last layer with weights learns, all statistics being left alone.
        backend: Whether members share each step.
    """

    epochs: int = 24
    batch: int = 256
    lr: float = 4e-3
    last_layer: bool = False
    backend: Backend = "whichever is faster"


def finetuned(
    net: nn.Module,
    batches: Sequence[Batches],
    loss: Loss,
    schedule: Schedule,
    *,
    seed: int,
    after_epoch: AfterEpoch | None = None,
) -> State:
    """States of copies of `net`, one for each plan of mini-batches, finetuned without early stopping.

    BatchNorm learns in train mode, so its statistics follow the new rows.
    """
    together = schedule.backend == "together" or (schedule.backend != "one by one" and not _has_convolutions(net))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(seed, "finetuning", "dropout"))
        if together:
            return _together(net, batches, loss, schedule, after_epoch)
        states = [_together(net, [one], loss, replace(schedule, backend="together"), None) for one in batches]
    return {name: torch.cat([state[name] for state in states]) for name in states[0]}


def _together(
    net: nn.Module, batches: Sequence[Batches], loss: Loss, schedule: Schedule, after_epoch: AfterEpoch | None
) -> State:
    """One population, one step of all members at a time; a single member runs without `vmap`."""
    model = deepcopy(net).train(not schedule.last_layer)
    state = stacked(model, len(batches))
    learning = _learning(model, last_layer=schedule.last_layer)
    weights = [state[name].requires_grad_() for name in learning]
    steps = batches[0].steps
    optimizer = torch.optim.Adam(weights, lr=schedule.lr, fused=True)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=schedule.epochs * steps)
    for epoch in range(schedule.epochs):
        plans = [plan.epoch(epoch) for plan in batches]
        for step in range(steps):
            rows = torch.stack([plan[step] for plan in plans])  # (population, batch)
            inputs, targets = batches[0].data.inputs[rows], batches[0].data.targets[rows]
            optimizer.zero_grad()
            _total_loss(model, state, loss, inputs, targets).backward()
            optimizer.step()
            cosine.step()
        if after_epoch is not None:
            after_epoch(epoch, detached(state))
    return detached(state)


def _total_loss(model: nn.Module, state: State, loss: Loss, inputs: Tensor, targets: Tensor) -> Tensor:
    """Sum of the members' losses: its gradient is each member's own."""

    def one(member: State, x: Tensor, y: Tensor) -> Tensor:
        return loss(functional_call(model, member, (x,)), y)

    if len(inputs) == 1:
        return one({name: tensor[0] for name, tensor in state.items()}, inputs[0], targets[0])
    return vmap(one, randomness="different")(state, inputs, targets).sum()


def stacked(net: nn.Module, members: int) -> State:
    """The state of `net`, `members` times, (members, ...)."""
    whole = {**dict(net.named_parameters()), **dict(net.named_buffers())}
    return {name: tensor.detach().unsqueeze(0).repeat(members, *[1] * tensor.ndim) for name, tensor in whole.items()}


def detached(state: State) -> State:
    """A copy that later steps do not change."""
    return {name: tensor.detach().clone() for name, tensor in state.items()}


def population_outputs(net: nn.Module, state: State, inputs: Tensor, *, at_once: int = 4096) -> Tensor:
    """Outputs of every member in eval mode on the same rows, (members, n) or (members, n, outputs)."""
    model = deepcopy(net).eval()
    members = len(next(iter(state.values())))
    found = []
    with torch.no_grad():
        for index in range(members):
            one = {name: tensor[index] for name, tensor in state.items()}
            found.append(torch.cat([functional_call(model, one, (some,)) for some in inputs.split(at_once)]))
    return torch.stack(found)


def _learning(net: nn.Module, *, last_layer: bool) -> list[str]:
    names = [name for name, _ in net.named_parameters()]
    return [name for name in names if name.rpartition(".")[0] == names[-1].rpartition(".")[0]] if last_layer else names


def _has_convolutions(net: nn.Module) -> bool:
    return any(isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d) for module in net.modules())
