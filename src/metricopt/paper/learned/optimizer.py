"""Meta-testing: a learned update rule as a torch optimizer like any other."""

import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from metricopt.core.errors import FileFormatError, MetricOptWarning
from metricopt.paper.learned.signals import Signals
from metricopt.paper.learned.weights import LearnedWeights, load_optimizer
from metricopt.paper.value_function import ValueFunction


class LearnedOptimizer(Optimizer):
    """Eq. S1 with weights that were meta-trained: phi + alpha u, both from an MLP that all coordinates share.

    It is told the loss by the closure, or by `observe` where there is none, and the metric by `observe` whenever that
    is known; in between it goes by the last one. Without any metric its inputs about it are zero. Schedulers change
    `lr`, which multiplies every step.

    Args:
        params: Parameters or groups of them; inputs are scaled by each tensor's own size.
        weights: What `meta_train` or `load_optimizer` gave, or the name of weights that come with metricopt.
        lr: Size of a step of direction 1; None for the one that the weights were trained with.
        population: Whether the first dimension of every parameter counts members of a population, each with a loss and
            a metric of its own.
        value: For rules that look at the gradient of a value function: f, (n, dim) -> (n,).

    Example:
        >>> from metricopt.paper.learned.equation_s1_rule import MlpRule
        >>> rule = MlpRule()
        >>> weights = LearnedWeights(rule, rule.initial(torch.Generator().manual_seed(0)))
        >>> phi = torch.nn.Parameter(torch.ones(4))
        >>> optimizer = LearnedOptimizer([phi], weights, lr=0.1)
        >>> def closure():
        ...     optimizer.zero_grad()
        ...     loss = phi.square().sum()
        ...     loss.backward()
        ...     return loss
        >>> optimizer.observe(metric=0.5)
        >>> before = optimizer.step(closure).item()
        >>> phi.square().sum().item() < before
        True
    """

    def __init__(
        self,
        params: Iterable[Any],
        weights: LearnedWeights | str | Path,
        *,
        lr: float | None = None,
        population: bool = False,
        value: ValueFunction | None = None,
    ) -> None:
        self.learned = weights if isinstance(weights, LearnedWeights) else load_optimizer(weights)
        rule = self.learned.rule
        if lr is not None and not lr >= 0:
            raise ValueError(f"lr is {lr}; expected a number that is not negative, or None for {rule.lr:g}")
        if rule.needs_value and value is None:
            raise ValueError("these weights look at the gradient of a value function; pass it as value=")
        self.population, self.value = population, value
        self._loss: Tensor | None = None
        self._warned = False
        super().__init__(params, {"lr": rule.lr if lr is None else lr})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters; nothing is known of them yet."""
        super().add_param_group(param_group)
        for parameter in self.param_groups[-1]["params"]:
            rows = self._rows(parameter.detach())
            unknown = torch.full_like(rows[:, 0], torch.nan)
            self.state[parameter] = {"metric": unknown, **self.learned.rule.start(rows)}

    def observe(self, *, loss: float | Tensor | None = None, metric: float | Tensor | None = None) -> None:
        """Tell the loss of the step to come, the metric as a cost in [0, 1] that is to go by from now on, or both."""
        if loss is not None:
            self._loss = torch.as_tensor(loss).detach()
        if metric is not None:
            known = torch.as_tensor(metric).detach()
            for parameter in self._parameters():
                state = self.state[parameter]
                state["metric"] = known.to(state["metric"]).expand_as(state["metric"]).clone()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """One step of every parameter that has a gradient.

        Args:
            closure: Computes the loss and its gradient; called once.

        Returns:
            What `closure` returned.
        """
        told = None
        if closure is not None:
            with torch.enable_grad():
                told = closure()
            self._loss = torch.as_tensor(told).detach()
        if self._loss is None and self.learned.rule.needs_loss:
            raise ValueError(
                "the learned optimizer looks at the loss and was told none; pass step a closure, or call "
                "observe(loss=loss) before it"
            )
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._move(parameter, group["lr"])
        self._loss = None
        return told

    @torch.no_grad()
    def _move(self, parameter: Tensor, lr: float) -> None:
        rows, gradient = self._rows(parameter.detach()), self._rows(parameter.grad.detach())  # pyright: ignore[reportOptionalMemberAccess]
        state = self.state[parameter]
        loss = torch.full_like(rows[:, 0], torch.nan) if self._loss is None else self._loss.to(rows).expand(len(rows))
        seen = Signals(rows, gradient, loss, state["metric"], self._steepness(rows))
        remembered = {name: tensor for name, tensor in state.items() if name != "metric"}
        weights = self.learned.weights.to(rows).expand(len(rows), -1)
        change, after = self.learned.rule.update(weights, seen, remembered)
        # A loss that is no number spoils one step, not phi and not what is remembered.
        usable = change.isfinite().all(-1) & gradient.isfinite().all(-1) & ~(loss.isinf() | (loss.isnan() & self._told))
        if not bool(usable.all()):
            self._warn(int((~usable).sum()), len(usable))
        parameter.add_(torch.where(usable[:, None], lr * change, 0.0).view_as(parameter))
        for name, tensor in after.items():
            keep = usable.view(-1, *[1] * (tensor.dim() - 1))
            state[name] = torch.where(keep, tensor, remembered[name])

    @property
    def _told(self) -> bool:
        return self._loss is not None

    def _steepness(self, rows: Tensor) -> Tensor:
        if self.value is None or not self.learned.rule.needs_value:
            return torch.zeros_like(rows)
        with torch.enable_grad():
            leaf = rows.clone().requires_grad_()
            return torch.autograd.grad(self.value(leaf).sum(), leaf)[0]

    def _rows(self, tensor: Tensor) -> Tensor:
        """(members, coordinates)."""
        return tensor.reshape(len(tensor) if self.population else 1, -1)

    def _parameters(self) -> list[Tensor]:
        return [parameter for group in self.param_groups for parameter in group["params"]]

    def _warn(self, failed: int, members: int) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"loss, gradient or update of {failed} of {members} members is not finite; they stay where they are: "
                f"check the loss near the present parameters (said once)",
                MetricOptWarning,
                stacklevel=3,
            )

    def __getstate__(self) -> dict[str, Any]:
        # torch's own keeps groups and state only, so a copy would have no rule; a scheduler's wrapper stays behind.
        return {name: item for name, item in self.__dict__.items() if name != "step"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue exactly where `state_dict` was taken; one of another optimizer or feature set is refused."""
        expected = {name: tuple(tensor.shape) for name, tensor in self.state[self._parameters()[0]].items()}
        saved = state_dict.get("state", {}).get(0, {})
        found = {name: tuple(tensor.shape) for name, tensor in saved.items() if isinstance(tensor, Tensor)}
        if found != expected:
            raise FileFormatError(
                f"the optimizer state holds {found}, expected {expected}; use the parameters and the weights it was "
                f"saved with"
            )
        super().load_state_dict(state_dict)
