"""A practitioner's finetunings: last layer or all, plain or balanced, validation rows alone or mixed, stopped early."""

import time
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.func import functional_call, vmap

from metricopt.core.seeding import stream
from metricopt.data.dataset import Examples
from metricopt.losses import Loss
from metricopt_lab.crossfit.batches import Batches, mixed, steps_an_epoch
from metricopt_lab.crossfit.population import Schedule, State, detached, finetuned
from metricopt_lab.crossfit.problem import Problem

HELD_OUT = 0.3
SCHEDULE = Schedule(epochs=24, batch=256, lr=2e-3)


@dataclass(frozen=True)
class Variant:
    """One way of finetuning."""

    last_layer: bool
    balanced: bool
    mix: float

    @property
    def name(self) -> str:
        """As in "all balanced mixed"."""
        words = ("last" if self.last_layer else "all", "balanced" if self.balanced else "plain")
        return " ".join((*words, "mixed" if self.mix else "alone"))


VARIANTS = tuple(Variant(last, balanced, mix) for last in (True, False) for balanced in (False, True)
                 for mix in (0.0, 1.0))  # fmt: skip


@dataclass(frozen=True, eq=False)
class Bank:
    """Finetuned networks, stopped where the loss on the rows left out was lowest.

    Attributes:
        learnt: Validation rows they learnt from.
        held_out: Validation rows left out, which choose everything.
        states: One state for each variant.
        epochs: Where each was stopped.
        losses: Mean loss on the rows left out there.
        seconds: Seconds of the wall.
        cpu: Processor seconds.
    """

    learnt: Tensor
    held_out: Tensor
    states: list[State]
    epochs: list[int]
    losses: list[float]
    seconds: float
    cpu: float


def bank(problem: Problem, *, seed: int, loss: Loss | None = None, variants: tuple[Variant, ...] = VARIANTS) -> Bank:
    """All variants, finetuned on a part of the validation rows and stopped by the rest."""
    began, cpu = time.perf_counter(), time.process_time()
    learnt, held_out = halves(problem.val, seed=seed)
    rows = problem.val.rows(held_out)
    found: dict[Variant, tuple[State, int, float]] = {}
    for last in (True, False):
        for mix in (0.0, 1.0):
            some = [variant for variant in variants if variant.last_layer == last and variant.mix == mix]
            if some:
                found |= _stopped_early(problem, some, learnt, rows, loss or problem.loss, seed=seed)
    states, epochs, losses = zip(*(found[variant] for variant in variants), strict=True)
    seconds, processor = time.perf_counter() - began, time.process_time() - cpu
    return Bank(learnt, held_out, list(states), list(epochs), list(losses), seconds, processor)


def halves(val: Examples, *, seed: int) -> tuple[Tensor, Tensor]:
    """Rows to learn from and rows left out, every class in both as far as it can be."""
    order = torch.randperm(len(val), generator=stream(seed, "left out"))
    by_class = order[torch.argsort(val.targets[order], stable=True)]
    place = torch.arange(len(val)) * HELD_OUT
    out = place.floor() != (place + HELD_OUT).floor()
    return by_class[~out], by_class[out]


def plans(problem: Problem, variants: list[Variant], rows: Tensor, *, batch: int, seed: int) -> list[Batches]:
    """Mini-batches of variants that are trained together."""
    data, first = mixed(problem.val, problem.train)
    mix = variants[0].mix
    shown = round(len(rows) * (1 + mix))
    size = min(batch, shown)
    steps = steps_an_epoch(shown, batch=size)
    return [Batches(data, rows, first, steps, size, mix, variant.balanced, seed, member)
            for member, variant in enumerate(variants)]  # fmt: skip


def _stopped_early(
    problem: Problem, variants: list[Variant], learnt: Tensor, held_out: Examples, loss: Loss, *, seed: int
) -> dict[Variant, tuple[State, int, float]]:
    best: dict[Variant, tuple[State, int, float]] = {}

    def keep_lowest(epoch: int, state: State) -> None:
        for member, (variant, value) in enumerate(zip(variants, _losses(problem, state, held_out, loss), strict=True)):
            if variant not in best or value < best[variant][2]:
                one = {name: tensor[member] for name, tensor in state.items()}
                best[variant] = (detached(one), epoch + 1, value)

    schedule = replace(SCHEDULE, last_layer=variants[0].last_layer, backend="together")
    finetuned(problem.net, plans(problem, variants, learnt, batch=schedule.batch, seed=seed), loss, schedule,
              seed=seed, after_epoch=keep_lowest)  # fmt: skip
    return best


def _losses(problem: Problem, state: State, rows: Examples, loss: Loss) -> list[float]:
    problem.net.eval()
    with torch.no_grad():

        def one(member: State) -> Tensor:
            return loss(functional_call(problem.net, member, (rows.inputs,)), rows.targets)

        return vmap(one)(state).tolist()
