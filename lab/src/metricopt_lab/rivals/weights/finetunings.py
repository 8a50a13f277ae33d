"""The finetunings of a problem: made once, and shared by all rivals that choose among them, at every budget."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import final

import torch
from torch import Tensor, nn

from metricopt.core.seeding import stream
from metricopt.data.dataset import Examples
from metricopt.losses import Loss
from metricopt_lab.problems.zoo.problem import UserProblem
from metricopt_lab.rivals.weights.batches import Batches, joined, steps_an_epoch
from metricopt_lab.rivals.weights.head import Head, features_of
from metricopt_lab.rivals.weights.ranking import ranking_loss
from metricopt_lab.rivals.weights.state import State, digest, outputs_of, state_of
from metricopt_lab.rivals.weights.training import Stopped, Stopping, finetuned
from metricopt_lab.rivals.weights.variants import RANKING, USUAL, Variant

HELD_OUT, BATCH = 0.3, 256


@dataclass(frozen=True)
class Clock:
    """Seconds of the wall and of the processor since it was made.

    Example:
        >>> Clock().taken.seconds < 1
        True
    """

    seconds: float = field(default_factory=time.perf_counter)
    cpu: float = field(default_factory=time.process_time)

    @property
    def taken(self) -> "Clock":
        """What has gone by."""
        return Clock(time.perf_counter() - self.seconds, time.process_time() - self.cpu)

    def __add__(self, other: "Clock") -> "Clock":
        return Clock(self.seconds + other.seconds, self.cpu + other.cpu)


@dataclass(frozen=True, eq=False)
class Bank:
    """Finetuned networks, each with the rate and stopped at the epoch that had the lowest loss on the rows left out.

    Attributes:
        variants: How each was finetuned.
        found: The networks, one a variant.
        took: Time that it took.
    """

    variants: Sequence[Variant]
    found: Sequence[Stopped]
    took: Clock

    @property
    def states(self) -> list[State]:
        """Of the networks."""
        return [one.state for one in self.found]


@final
class Finetunings:
    """What rivals share on a problem of a seed: rows left out, finetuned networks, and what they took.

    Attributes:
        problem: The problem.
        epochs: Passes over the rows that a finetuning may take.
    """

    def __init__(self, problem: UserProblem, *, epochs: int | None = None) -> None:
        self.problem = problem
        self.epochs = epochs or default_epochs(problem.net)
        self._refitted: dict[tuple[Variant, int], tuple[State, Clock]] = {}
        self._test_outputs: dict[str, Tensor] = {}
        self._learnt, self._held_out = left_out(problem.val, seed=problem.seed)

    @cached_property
    def original(self) -> State:
        """Weights and buffers of the pre-trained network."""
        return state_of(self.problem.net)

    @cached_property
    def held_out(self) -> Examples:
        """Validation rows that nothing learns from: they stop, and the metric is asked about them."""
        return self.problem.val.rows(self._held_out)

    @cached_property
    def usual(self) -> Bank:
        """Last layer or all, plain or balanced, validation rows alone or mixed with training rows."""
        return self._bank(USUAL, self.problem.loss)

    @cached_property
    def ranking(self) -> Bank | None:
        """With a loss about the order of scores; None where the metric is about classes."""
        loss = ranking_loss(self.problem.metric)
        return None if loss is None else self._bank(RANKING, loss)

    def refitted(self, variant: Variant, epoch: int) -> tuple[State, Clock]:
        """A variant on all validation rows, the schedule cut at an epoch, and what it took, the first time."""
        if (variant, epoch) not in self._refitted:
            began, every = Clock(), torch.arange(len(self.problem.val))
            found = self._trained([variant], every, self.problem.loss, Stopping(epoch=epoch))
            self._refitted[variant, epoch] = found[variant].state, began.taken
        return self._refitted[variant, epoch]

    def test_cost(self, state: State, bias: Tensor) -> float:
        """Cost of a network with a bias on the test rows; outputs are kept, for other budgets choose the same."""
        key = digest(state)
        if key not in self._test_outputs:
            problem = self.problem
            self._test_outputs[key] = outputs_of(problem.net, [state], problem.test.inputs)[0]
        return self.problem.cost_of_test_outputs(self._test_outputs[key] + bias)

    def _bank(self, variants: Sequence[Variant], loss: Loss) -> Bank:
        began, found = Clock(), dict[Variant, Stopped]()
        # Those that take as many steps an epoch share them.
        for kind in dict.fromkeys((variant.last_layer, variant.mix) for variant in variants):
            some = [variant for variant in variants if (variant.last_layer, variant.mix) == kind]
            found |= self._trained(some, self._learnt, loss, Stopping(rows=self.held_out))
        best = [min(same, key=lambda variant: found[variant].loss) for same in _by_rate(variants)]
        return Bank(best, [found[variant] for variant in best], began.taken)

    def _trained(
        self, variants: Sequence[Variant], rows: Tensor, loss: Loss, stopping: Stopping
    ) -> dict[Variant, Stopped]:
        net, last = self.problem.net, variants[0].last_layer
        trained: nn.Module = self._head if last else net
        data = self._features if last else self._rows
        if last and stopping.rows is not None:
            stopping = Stopping(features_of(net, stopping.rows))
        plans = self._plans(variants, data, rows)
        rates = [variant.rate for variant in variants]
        found = finetuned(trained, plans, loss, epochs=self.epochs, rates=rates, stopping=stopping,
                          seed=self.problem.seed)  # fmt: skip
        if last:
            found = [Stopped(self._head.whole(net, one.state), one.epoch, one.loss) for one in found]
        return dict(zip(variants, found, strict=True))

    def _plans(self, variants: Sequence[Variant], data: Examples, rows: Tensor) -> list[Batches]:
        shown = round(len(rows) * (1 + variants[0].mix))
        batch = min(BATCH, shown)
        steps, first = steps_an_epoch(shown, batch=batch), len(self.problem.val)
        return [Batches(data, rows, first, steps, batch, variant.mix, variant.balanced, self.problem.seed, member)
                for member, variant in enumerate(variants)]  # fmt: skip

    @cached_property
    def _rows(self) -> Examples:
        return joined(self.problem.val, self.problem.train)

    @cached_property
    def _features(self) -> Examples:
        return features_of(self.problem.net, self._rows)

    @cached_property
    def _head(self) -> Head:
        return Head(self.problem.net, self.problem.val.inputs)


def _by_rate(variants: Sequence[Variant]) -> list[list[Variant]]:
    """Variants that differ in the rate alone, together."""
    kinds = dict.fromkeys(replace(variant, rate=0.0) for variant in variants)
    return [[variant for variant in variants if replace(variant, rate=0.0) == kind] for kind in kinds]


def left_out(val: Examples, *, seed: int) -> tuple[Tensor, Tensor]:
    """Rows to learn from and rows left out, 30%, every class in both as far as it can be.

    Example:
        >>> learnt, held_out = left_out(Examples(torch.zeros(20, 1), torch.arange(20) % 2), seed=0)
        >>> len(learnt), sorted((held_out % 2).tolist())
        (14, [0, 0, 0, 1, 1, 1])
    """
    order = torch.randperm(len(val), generator=stream(seed, "left out"))
    by_class = order[torch.argsort(val.targets[order], stable=True)]
    place = torch.arange(len(val)) * HELD_OUT
    out = place.floor() != (place + HELD_OUT).floor()
    return by_class[~out], by_class[out]


def default_epochs(net: nn.Module) -> int:
    """Passes over the rows: half as many for a network of convolutions, whose steps take fifty times as long."""
    return 12 if any(isinstance(module, nn.Conv2d) for module in net.modules()) else 24
