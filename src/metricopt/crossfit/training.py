"""Copies of a network finetuned by Adam, without early stopping: as one population, or one after the other."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from metricopt.core.seeding import derived_seed
from metricopt.crossfit.draws import Draws
from metricopt.crossfit.learner import Learner, State

_EPS = 1e-8  # Adam's
Tick = Callable[[int], None]
"""Told after every epoch how many networks have gone through it."""


def finetuned(
    learner: Learner, draws: Sequence[Draws], *, epochs: int, rates: Sequence[float], seed: int, tick: Tick
) -> State:
    """States of copies of the network, one for each plan of mini-batches and its first rate, (copies, ...) by name.

    Rates fall to 0 as a cosine. Copies whose loss is no number any more keep the original's weights.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(seed, "finetuning", "dropout", draws[0].member))
        if learner.together and len(draws) > 1:
            found = _together(learner, draws, epochs, rates, tick)
        else:
            each = [
                state_of(trained(learner, one, epochs=epochs, lr=lr, tick=tick))
                for one, lr in zip(draws, rates, strict=True)
            ]
            found = {name: torch.stack([state[name] for state in each]) for name in each[0]}
    return _sound(found, state_of(learner.model.net))


def trained(learner: Learner, draws: Draws, *, epochs: int, lr: float, tick: Tick = lambda _: None) -> nn.Module:
    """One finetuned copy of the network, of whatever structure its inputs and outputs are."""
    net = learner.copy()
    weights = [parameter for parameter in net.parameters() if parameter.requires_grad]
    optimizer, cosine = _adam(weights, lr, epochs * draws.steps)
    for epoch in range(epochs):
        own, rest = draws.epoch(epoch)
        for step in range(draws.steps):
            optimizer.zero_grad()
            learner.loss(net, learner.batches(own[step], rest[step], seed=epoch * draws.steps + step)).backward()
            optimizer.step()
            cosine.step()
            tick(0)
        tick(1)
    return net


def _together(learner: Learner, draws: Sequence[Draws], epochs: int, rates: Sequence[float], tick: Tick) -> State:
    """One step of all copies at a time, each on its own mini-batch."""
    net = learner.copy()
    start = {name: tensor.repeat(len(draws), *[1] * tensor.ndim) for name, tensor in state_of(net).items()}
    # Changes in units of each copy's rate: Adam, to which scale is nothing, then has one rate for all of them.
    changes = {name: torch.zeros_like(start[name], requires_grad=True) for name in learner.learning()}
    units = {
        name: torch.tensor(rates).to(change).view(-1, *[1] * (change.ndim - 1)) for name, change in changes.items()
    }
    steps = draws[0].steps
    optimizer, cosine = _adam(list(changes.values()), 1.0, epochs * steps, eps=_EPS * min(rates))

    def moved() -> State:
        return start | {name: start[name] + units[name] * change for name, change in changes.items()}

    def one(member: State, inputs: Tensor, targets: Tensor) -> Tensor:
        return learner.rule.function(functional_call(net, member, (inputs,)), targets).reshape(())

    for epoch in range(epochs):
        own, rest = (torch.stack(parts, 1) for parts in zip(*(each.epoch(epoch) for each in draws), strict=True))
        for step in range(steps):
            (batch,) = learner.batches(own[step].flatten(), rest[step].flatten(), seed=0)
            inputs, targets = (_by_member(part, len(draws), own.shape[2]) for part in (batch.inputs, batch.targets))
            optimizer.zero_grad()
            # The gradient of the sum is each copy's own.
            vmap(one, randomness="different")(moved(), inputs, targets).sum().backward()
            optimizer.step()
            cosine.step()
            tick(0)
        tick(len(draws))
    return {name: tensor.detach() for name, tensor in moved().items()}


def _by_member(rows: Tensor, members: int, own: int) -> Tensor:
    """Rows of all copies, validation rows first, as (copies, batch, ...)."""
    first, second = rows[: members * own], rows[members * own :]
    parts = [part.view(members, -1, *rows.shape[1:]) for part in (first, second) if len(part)]
    return torch.cat(parts, 1)


def _adam(
    weights: Sequence[Tensor], lr: float, steps: int, *, eps: float = _EPS
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    optimizer = torch.optim.Adam(weights, lr=lr, eps=eps, fused=True)
    return optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=max(1, steps))


def state_of(net: nn.Module) -> State:
    """Parameters and buffers by name, copied; shared ones once.

    Example:
        >>> list(state_of(nn.Linear(2, 1)))
        ['weight', 'bias']
    """
    return {name: tensor.detach().clone() for name, tensor in (*net.named_parameters(), *net.named_buffers())}


def _sound(state: State, original: State) -> State:
    """The same, copies with infinite or missing numbers replaced by the original."""
    copies = len(next(iter(state.values())))
    floating = [tensor.reshape(copies, -1) for tensor in state.values() if tensor.is_floating_point()]
    broken = ~torch.stack([tensor.isfinite().all(1) for tensor in floating]).all(0)
    if bool(broken.any()):
        for name, tensor in state.items():
            tensor[broken] = original[name]
    return state
