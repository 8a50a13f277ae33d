"""A black-box metric: what it is computed on, which way is better, and its value as a cost in [0, 1]."""

import math
import numbers
import warnings
from collections.abc import Callable
from typing import Any, Literal, TypeVar, final, get_args

import numpy as np
import torch
from torch import Tensor

from metricopt.errors import MetricError, MetricFailureWarning
from metricopt.metrics.cases import Cases, matched
from metricopt.metrics.foreign import Goal, On, adopt
from metricopt.metrics.predictions import evaluating, outputs_of

Number = TypeVar("Number", float, Tensor)

_TOLERANCE = 1e-6  # of the width of the bounds: rounding, not a wrong range


@final
class Metric:
    """Any function of truth and prediction, with its goal stated.

    Attributes:
        on: What the function is given as its prediction.
        goal: Which way is better.
        bounds: Smallest and largest value it can take.
        name: What it is called in messages and reports.
        groups: Whether it takes group numbers as a third argument.

    Example:
        >>> from sklearn.metrics import f1_score
        >>> metric = Metric(f1_score, on="labels", goal="max")
        >>> metric
        Metric('f1_score', on='labels', goal='max')
        >>> logits, targets = torch.tensor([2.0, 1.0, -1.0]), torch.tensor([1, 0, 0])
        >>> round(metric.value(logits, targets), 3)
        0.667
        >>> metric.cost(0.75), metric.natural(0.25), metric.better(0.8, 0.7)
        (0.25, 0.75, True)
        >>> metric.values(torch.stack([logits, -logits]), targets).tolist() == [2 / 3, 0.0]
        True
    """

    def __init__(
        self,
        function: Any,
        *,
        on: On | None = None,
        goal: Goal | None = None,
        bounds: tuple[float, float] = (0.0, 1.0),
        name: str | None = None,
        batched: Callable[..., Tensor] | None = None,
        groups: bool = False,
    ) -> None:
        """Describe a metric.

        Args:
            function: `function(y_true, prediction)` in scikit-learn's order, on NumPy arrays, or with `on="model"`
                `function(model, inputs, targets)`. A torchmetrics object or a scikit-learn scorer does as well.
            on: "labels" (classes), "scores" (probabilities), "logits" or "embeddings" (raw outputs), "model".
                It may be left out for scorers, which choose themselves, and for torchmetrics' classification
                metrics, which get scores and threshold them themselves.
            goal: "max" or "min". It may be left out for scorers (always "max") and for torchmetrics objects that
                declare `higher_is_better`; it is never guessed.
            bounds: Smallest and largest value the function can return.
            name: Name for messages; by default the function's own.
            batched: `batched(targets, predictions)` on tensors that gives the values of a whole population,
                (population,). Both have a leading population dimension; classes are int64, scores float64.
            groups: Whether the functions take group numbers as a further argument.
        """
        adopted = adopt(function, on=on, goal=goal)
        self.function = adopted.function
        self.batched = batched
        self.name = name or adopted.name
        self.on: On = _stated(self.name, "on", adopted.on, get_args(On))
        self.goal: Goal = _stated(self.name, "goal", adopted.goal, get_args(Goal))
        self.bounds = _checked_bounds(self.name, bounds)
        self.groups = groups

    def value(self, outputs: Tensor, targets: Tensor, groups: Tensor | None = None) -> float:
        """Value of one model in natural units.

        Args:
            outputs: Raw outputs, (n,), (n, 1) or (n, classes); any (n, ...) for "logits" and "embeddings".
            targets: Truth, (n,); (n, columns) of 0 and 1 for multi-label outputs.
            groups: Group numbers, (n,); ignored unless the metric takes groups.
        """
        groups = None if groups is None else groups.unsqueeze(0)
        cases = self._cases(outputs.unsqueeze(0), targets.unsqueeze(0), groups)
        return self._answer(cases, 0)

    def values(
        self,
        outputs: Tensor,
        targets: Tensor,
        groups: Tensor | None = None,
        *,
        failures: Literal["raise", "nan"] = "raise",
    ) -> Tensor:
        """Values of a population of models in natural units, float64 on the CPU, (population,).

        Args:
            outputs: Raw outputs, (population, n) or (population, n, ...).
            targets: Truth shared by all, (n,), or one set of rows a member, (population, n), as in a bootstrap.
                Multi-label targets have a further dimension of columns.
            groups: Group numbers, (n,) or (population, n); ignored unless the metric takes groups.
            failures: "raise" stops at the first member whose query fails; "nan" warns and gives NaN for it.
        """
        cases = self._cases(outputs, targets, groups)
        answers = self._batched_answers(cases, failures)
        settled = [self._settled(cases, member, answers, failures) for member in range(len(outputs))]
        return torch.tensor(settled, dtype=torch.float64)

    def value_of_model(self, model: Any, inputs: Any, targets: Any, groups: Tensor | None = None) -> float:
        """Value of `model` on `inputs` in natural units; the model is run in eval mode, without gradients.

        Example:
            >>> error = Metric(lambda model, x, y: abs(float(model(x) - y)), on="model", goal="min", name="error")
            >>> error.value_of_model(torch.nn.Identity(), torch.tensor(0.75), torch.tensor(1.0))
            0.25
        """
        if self.on != "model":
            return self.value(outputs_of(model, inputs), targets, groups)
        extra = (self._needed(groups),) if self.groups else ()
        with evaluating(model):
            return self._asked(model, inputs, targets, *extra)

    def cost(self, value: Number) -> Number:
        """`value` as a cost in [0, 1], lower is better.

        In a tensor, NaN marks a query that failed and stays NaN.
        """
        low, high = self.bounds
        if isinstance(value, Tensor):
            worst = value[~value.isnan()]
            _ = [self._checked(float(extreme)) for extreme in (worst.aminmax() if worst.numel() else ())]
            return self._flipped((value - low) / (high - low)).clamp(0.0, 1.0)
        return min(max(self._flipped((self._checked(value) - low) / (high - low)), 0.0), 1.0)

    def natural(self, cost: Number) -> Number:
        """The value in natural units whose cost is `cost`."""
        low, high = self.bounds
        return low + (high - low) * self._flipped(cost)

    def better(self, a: float, b: float) -> bool:
        """Whether `a` is strictly better than `b`, both in natural units; NaN is never better."""
        return a > b if self.goal == "max" else a < b

    def __repr__(self) -> str:
        bounds = "" if self.bounds == (0.0, 1.0) else f", bounds={self.bounds}"
        groups = ", groups=True" if self.groups else ""
        return f"Metric({self.name!r}, on={self.on!r}, goal={self.goal!r}{bounds}{groups})"

    def _flipped(self, share: Number) -> Number:
        return 1.0 - share if self.goal == "max" else share

    def _cases(self, outputs: Tensor, targets: Tensor, groups: Tensor | None) -> Cases:
        if self.on == "model":
            raise MetricError(
                f"metric {self.name!r} is computed on the model, not on {tuple(outputs.shape)} outputs: "
                f"call value_of_model(model, inputs, targets)"
            )
        return matched(outputs, targets, self._needed(groups) if self.groups else None, on=self.on)

    def _needed(self, groups: Tensor | None) -> Tensor:
        if groups is None:
            raise MetricError(f"metric {self.name!r} needs the group of each example, but got groups=None: pass groups")
        return groups

    def _batched_answers(self, cases: Cases, failures: str) -> list[float] | None:
        """One number a member, or None if members have to be asked one by one."""
        if self.batched is None:
            return None
        extra = () if cases.groups is None else (cases.groups,)
        try:
            answers = self.batched(cases.targets, cases.predictions, *extra)
        except Exception as error:
            if failures == "nan" or not cases.sound.all():
                return None  # one member may have broken the others' computation
            raise self._raised(error) from error
        if answers.shape != (len(cases.predictions),):
            raise MetricError(
                f"the batched form of metric {self.name!r} returned shape {tuple(answers.shape)} for a population of "
                f"{len(cases.predictions)}: return one value a member"
            )
        return answers.tolist()

    def _settled(self, cases: Cases, member: int, answers: list[float] | None, failures: str) -> float:
        try:
            return self._answer(cases, member, None if answers is None else answers[member])
        except MetricError as error:
            if failures == "raise":
                raise
            message = f"query of member {member} of {len(cases.predictions)} failed and counts as unknown: {error}"
            warnings.warn(message, MetricFailureWarning, stacklevel=4)
            return math.nan

    def _answer(self, cases: Cases, member: int, known: float | None = None) -> float:
        if not cases.sound[member]:
            raise MetricError(
                f"metric {self.name!r} was asked about model outputs with NaN or +inf in them, where finite ones are "
                f"expected: the model has diverged, so lower the learning rate or discard this model"
            )
        return self._asked(*cases.arrays(member)) if known is None else self._checked(known)

    def _asked(self, *arguments: Any) -> float:
        try:
            answer = self.function(*arguments)
        except Exception as error:
            raise self._raised(error) from error
        return self._checked(answer)

    def _raised(self, error: Exception) -> MetricError:
        if isinstance(error, MetricError):
            return MetricError(f"metric {self.name!r}: {error}")
        return MetricError(
            f"metric {self.name!r} (on={self.on!r}) raised {type(error).__name__}: {error}; a number is expected for "
            f"any prediction: handle this case in its function or choose another 'on'"
        )

    def _checked(self, answer: Any) -> float:
        """The answer as a float, if it is a number within the bounds."""
        number = _as_float(answer)
        low, high = self.bounds
        slack = _TOLERANCE * (high - low)
        if number is None:
            raise MetricError(f"metric {self.name!r} returned {answer!r}; a single number is expected: return a float")
        if not math.isfinite(number):
            raise MetricError(
                f"metric {self.name!r} gave {number}; a finite number is expected: "
                f"check that it is defined on these data (every class present?) or handle the case in its function"
            )
        if not low - slack <= number <= high + slack:
            raise MetricError(
                f"metric {self.name!r} gave {number:g}, outside its bounds ({low:g}, {high:g}): "
                f"state its true range with Metric(..., bounds=(low, high))"
            )
        return number


def _as_float(answer: Any) -> float | None:
    if isinstance(answer, (Tensor, np.ndarray)):
        answer = answer.item() if math.prod(answer.shape) == 1 else None
    return float(answer) if isinstance(answer, (numbers.Real, np.bool_)) else None


def _stated(name: str, what: str, found: Any, choices: tuple[str, ...]) -> Any:
    if found is None:
        example = "on='labels', goal='max'"
        raise MetricError(
            f"metric {name!r} was given without {what!r}, which is never guessed: "
            f"write Metric(..., {example}) with {what} one of {', '.join(choices)}"
        )
    if found not in choices:
        raise MetricError(f"metric {name!r} has {what}={found!r}; choose one of {', '.join(map(repr, choices))}")
    return found


def _checked_bounds(name: str, bounds: tuple[float, float]) -> tuple[float, float]:
    low, high = (float(bound) for bound in bounds)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise MetricError(f"metric {name!r} has bounds={bounds}; two finite numbers, the smaller first, are expected")
    return low, high
