"""Finetuning by an update rule, unrolled: paths of a population, and the derivative of anything along them.

Of the way there only phi and the rule's state are kept; the way back computes each step once more. So a full unroll
takes the memory of one step's graph, of the paths and of the mini-batches, whatever the network.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from metricopt.core.tree import each
from metricopt.paper.learned.signals import Rule, Signals, State
from metricopt.paper.value_function import ValueFunction
from metricopt.task.base import Task


class Path(NamedTuple):
    """Where a rule led a population.

    Attributes:
        phi: (members, steps + 1, dim).
        loss: Of each on its mini-batch, (members, steps + 1).
        states: phi, metric and what the rule remembered before each step.
    """

    phi: Tensor
    loss: Tensor
    states: list[State]

    @property
    def finite(self) -> Tensor:
        """Which members never left the numbers there are, (members,)."""
        return self.phi.isfinite().all(-1).all(-1) & self.loss.isfinite().all(-1)


@final
@dataclass(frozen=True)
class Unroll:
    """A task, a rule and what it is fed with.

    Attributes:
        task: Whose loss is followed.
        rule: The update rule.
        value: Estimates the metric; None for none.
        lr: What updates are multiplied with.
        metric_every: Steps between two estimates of the metric that the rule is told; in between it sees the last one.
        second_order: Differentiate the loss's gradient too; without, the derivative is biased and cheaper.
        truncation: Steps after which the way back forgets what came later; None for never, which is unbiased.

    Example:
        >>> from metricopt.core.seeding import stream
        >>> from metricopt.paper.learned.equation_s1_rule import MlpRule
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> task, rule = QuadraticTask(dim=3), MlpRule()
        >>> drawn = task.batches(2, stream(0))
        >>> weights = rule.initial(stream(0)).expand(4, -1)
        >>> unroll = Unroll(task, rule, None, lr=0.1)
        >>> path = unroll.forward(weights, torch.zeros(4, 3), [next(drawn) for _ in range(11)])
        >>> path.phi.shape, path.loss.shape
        (torch.Size([4, 11, 3]), torch.Size([4, 11]))
    """

    task: Task
    rule: Rule
    value: ValueFunction | None
    lr: float
    metric_every: int = 20
    second_order: bool = True
    truncation: int | None = None

    def forward(self, weights: Tensor, start: Tensor, batches: Sequence[Any]) -> Path:
        """The paths of members (members, dim), each with its own weights (members, size).

        Args:
            weights: Of the rule.
            start: phi_0; members are `times` copies of the population that the mini-batches are of.
            batches: steps + 1 of them, the last for the loss at the end.
        """
        unknown = torch.full_like(start[:, 0], torch.nan)
        now: State = {"phi": start, "metric": unknown, **self.rule.start(start)}
        states, losses = [], []
        for step, batch in enumerate(batches[:-1]):
            states.append(now)
            loss, now = self._step(weights, now, batch, step, differentiable=False)
            losses.append(loss)
        with torch.no_grad():
            losses.append(self._loss(now["phi"], batches[-1]))
        phi = torch.stack([state["phi"] for state in states] + [now["phi"]], 1)
        return Path(phi, torch.stack(losses, 1), states)

    def gradients(
        self, weights: Tensor, path: Path, batches: Sequence[Any], objective: Callable[[Tensor, Tensor], Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Each member's objective (members,) and its derivative by the member's weights, (members, size).

        Args:
            weights: Those of the path.
            path: What `forward` gave.
            batches: The same ones.
            objective: From losses (members, steps + 1) and phi (members, steps + 1, dim) to (members,).
        """
        losses, phi = path.loss.clone().requires_grad_(), path.phi.clone().requires_grad_()
        value = objective(losses, phi)
        of_losses, of_phi = torch.autograd.grad(value.sum(), (losses, phi), allow_unused=True)
        of_losses = torch.zeros_like(losses) if of_losses is None else of_losses
        of_phi = torch.zeros_like(phi) if of_phi is None else of_phi
        total = torch.zeros_like(weights)
        after = {"phi": of_phi[:, -1] + self._last(path.phi[:, -1], batches[-1], of_losses[:, -1])}
        for step in reversed(range(len(path.states))):
            if self.truncation and (step + 1) % self.truncation == 0:
                after = {"phi": of_phi[:, step + 1]}
            own, after = self._back(weights, path.states[step], batches[step], step, (of_losses[:, step], after))
            after["phi"] = after["phi"] + of_phi[:, step]
            total += own
        return value.detach(), total

    def _last(self, phi: Tensor, batch: Any, weight: Tensor) -> Tensor:
        """Derivative of the loss at the end, weighted."""
        leaf = phi.clone().requires_grad_()
        return torch.autograd.grad((weight * self._loss(leaf, batch)).sum(), leaf)[0]

    def _back(
        self, weights: Tensor, state: State, batch: Any, step: int, after: tuple[Tensor, State]
    ) -> tuple[Tensor, State]:
        """Derivatives by weights and state before a step, of those by its loss and by the state after it."""
        of_loss, of_state = after
        leaves = {name: tensor.clone().requires_grad_() for name, tensor in state.items()}
        own = weights.clone().requires_grad_()
        loss, there = self._step(own, leaves, batch, step, differentiable=True)
        # What the rule only copies, or counts, has no derivative.
        useful = [name for name in of_state if there[name].requires_grad]
        outputs, weighted = [loss, *(there[n] for n in useful)], [of_loss, *(of_state[n] for n in useful)]
        found = torch.autograd.grad(outputs, [own, *leaves.values()], weighted, allow_unused=True)
        filled = [
            torch.zeros_like(leaf) if g is None else g for g, leaf in zip(found[1:], leaves.values(), strict=True)
        ]
        first = torch.zeros_like(own) if found[0] is None else found[0]
        return first, dict(zip(leaves, filled, strict=True))

    def _step(
        self, weights: Tensor, state: State, batch: Any, step: int, *, differentiable: bool
    ) -> tuple[Tensor, State]:
        """The loss before a step, and phi, metric and memory after it."""
        phi = state["phi"] if differentiable else state["phi"].clone().requires_grad_()
        with torch.enable_grad():
            loss = self._loss(phi, batch)
            keep = differentiable and self.second_order
            gradient = torch.autograd.grad(loss.sum(), phi, create_graph=keep, retain_graph=differentiable)[0]
            steep = self._steepness(phi, differentiable)
        with torch.set_grad_enabled(differentiable):
            metric = self._metric(phi, state["metric"], step)
            remembered = {name: tensor for name, tensor in state.items() if name not in ("phi", "metric")}
            change, remembered = self.rule.update(weights, Signals(phi, gradient, loss, metric, steep), remembered)
            after = {"phi": phi + self.lr * change, "metric": metric, **remembered}
        return (loss, after) if differentiable else (loss.detach(), {n: t.detach() for n, t in after.items()})

    def _steepness(self, phi: Tensor, differentiable: bool) -> Tensor:
        if self.value is None or not self.rule.needs_value:
            return torch.zeros_like(phi)
        return torch.autograd.grad(self.value(phi).sum(), phi, create_graph=differentiable)[0]

    def _metric(self, phi: Tensor, before: Tensor, step: int) -> Tensor:
        return before if self.value is None or step % self.metric_every else self.value(phi)

    def _loss(self, phi: Tensor, batch: Any) -> Tensor:
        return self.task.loss(phi, batch_of(batch, phi))


def batch_of(batch: Any, phi: Tensor) -> Any:
    """A mini-batch of some members for a whole number of copies of them, one below the other.

    Example:
        >>> batch_of((torch.zeros(2, 5), torch.ones(2)), torch.zeros(6, 3))[0].shape
        torch.Size([6, 5])
    """
    if isinstance(batch, list):  # one batch a member
        return batch * (len(phi) // len(batch))

    def repeated(tensor: Tensor) -> Tensor:
        times = len(phi) // len(tensor)
        return tensor if times == 1 else torch.cat([tensor] * times)

    return each(repeated, batch)
