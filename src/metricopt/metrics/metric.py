"""A black-box metric: what it is computed on, which way is better, and its value as a cost in [0, 1]."""

import copy
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Self, final, get_args

import torch
from torch import Tensor

from metricopt.core.errors import MetricError, MetricFailureWarning
from metricopt.metrics.adopted import Bounds, Goal, On, adopt
from metricopt.metrics.asking import Answer, answer_of, answers_of, asked, cases_of_one, check_sound, needed, raised
from metricopt.metrics.bounds import BoundsCheck
from metricopt.metrics.checks import checked_bounds, kind_of, one_number, positive, stated
from metricopt.metrics.guard import guarded
from metricopt.metrics.predictions import applied, copied, outputs_of
from metricopt.metrics.resampling import LEFT_OUT, ROWS, ByClass, ByQuery, Resampling
from metricopt.metrics.scale import Number, Scale, Squashed, scale_of
from metricopt.metrics.whole_outputs import WholeCases


@final
class Metric:
    """Any function of truth and prediction, with its goal stated.

    Attributes:
        on: What the function is given as its prediction.
        goal: Which way is better.
        bounds: Smallest and largest value it can take; infinite where there is none.
        scale: How its values become costs.
        name: What it is called in messages and reports.
        groups: Whether it takes group numbers as a third argument.
        time_limit: Seconds after which a call counts as failed; None waits for ever.
        parallel: Members of a population asked at the same time.
        costly: Whether a call is dear, so that none is made beyond the queries and the acceptance.
        hidden: Whether it knows the truth itself, and is told the row numbers in place of targets.
        resampling: How it is asked about other rows of the same origin.
        range: Tells values that the bounds do not allow for.

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
        >>> from sklearn.metrics import mean_absolute_error
        >>> error = Metric(mean_absolute_error, on="values", goal="min")
        >>> error.value(torch.tensor([[2.0], [4.0]]), torch.tensor([1.5, 3.0]))
        0.75
    """

    def __init__(
        self,
        function: Any,
        *,
        on: On | None = None,
        goal: Goal | None = None,
        bounds: Bounds | Literal["usual"] | None = "usual",
        name: str | None = None,
        key: str | None = None,
        batched: Callable[..., Tensor] | None = None,
        on_rows: Callable[..., Callable[[Tensor], Tensor]] | None = None,
        groups: bool = False,
        time_limit: float | None = None,
        parallel: int = 1,
        costly: bool = False,
        hidden: bool = False,
        resampling: Resampling | None = None,
    ) -> None:
        """Describe a metric.

        Args:
            function: `function(y_true, prediction)` in scikit-learn's order, on NumPy arrays, or with `on="model"`
                `function(model, inputs, targets)`. A torchmetrics object or a scikit-learn scorer does as well.
            on: "labels" (classes), "scores" (probabilities), "values" (real-valued predictions, in the shape of the
                targets), "logits" or "embeddings" (raw outputs as they are), "outputs" (all that the network gives, of
                any structure), "model" (the network itself). It may be left out for scorers, which choose
                themselves, and for torchmetrics' classification metrics, which get scores.
            goal: "max" or "min". It may be left out for scorers (always "max") and for torchmetrics objects that
                declare `higher_is_better`; it is never guessed.
            bounds: Smallest and largest value the function can return, infinite where there is none; None if there is
                neither. "usual" is None for values and for scorers of regression and negated losses, otherwise (0, 1).
                A value worse than stated counts as the worst; one better than stated, or any before the first one
                within the bounds, is an error, because the bounds are wrong.
            name: Name for messages; by default the function's own.
            key: Which entry to take of a function that returns a mapping, or of a torchmetrics `MetricCollection`.
            batched: `batched(targets, predictions)` on tensors that gives the values of a whole population,
                (population,). Both have a leading population dimension; classes are int64, scores float64.
            on_rows: `on_rows(y_true, prediction)` that gives a function of row numbers (replicates, n), whose values,
                (replicates,), are those of the metric on these rows: for one that does most of its work once a row,
                and is asked about hundreds of resamples of them.
            groups: Whether the functions take group numbers as a further argument.
            time_limit: Seconds to wait for a call; a function that hangs goes on in a thread of its own, which nothing
                can end, and its late answer is ignored.
            parallel: How many calls may be made at once, in threads, for a population.
            costly: Whether a call is so dear that the noise of the metric is better guessed than measured.
            hidden: Whether the function knows the truth and is given row numbers of the data as `y_true`.
            resampling: How it is asked about other rows of the same origin. By default on resamples of the rows, and
                if it is on embeddings, where a row drawn twice would find itself, with parts of them left out.
        """
        adopted = adopt(function, on=on, goal=goal, key=key)
        self.function = adopted.function
        self.batched = batched
        self.on_rows = on_rows
        self.name = str(name or adopted.name)
        self.on: On = stated(self.name, "on", adopted.on, get_args(On))
        self.goal: Goal = stated(self.name, "goal", adopted.goal, get_args(Goal))
        self.bounds = checked_bounds(self.name, adopted.bounds if isinstance(bounds, str) else bounds)
        self.scale: Scale = scale_of(self.goal, self.bounds)
        self.groups = groups
        self.time_limit = positive(self.name, "time_limit", time_limit)
        self.parallel = int(positive(self.name, "parallel", parallel) or 1)
        self.costly = costly or self.on == "model"
        self.hidden = hidden
        default = LEFT_OUT if self.on == "embeddings" else ROWS
        self.resampling: Resampling = default if resampling is None else resampling
        self.range = BoundsCheck(self.name, self.goal, self.bounds)

    @property
    def unbounded(self) -> bool:
        """Whether it has no finite range, so that its costs depend on what it is `anchored` to."""
        return isinstance(self.scale, Squashed)

    @property
    def resampled(self) -> bool:
        """Whether it is asked on resamples; otherwise with parts of the rows left out, a few times only."""
        return self.resampling.repeats and (not self.costly or self.resampling.calls(2) == 1)

    def anchored(self, reference: float, spread: float | None = None) -> Self:
        """The same metric with costs around a known value, if it is unbounded; otherwise itself.

        Values a `spread` better or worse than the reference cost 1/4 or 3/4, whatever their units. Both should be
        chosen once, from the original model's value, and kept: costs of different anchors cannot be compared.

        Args:
            reference: The value that shall cost 1/2: the original model's.
            spread: By how much models are expected to differ; by default the size of the reference, or 1 if that is 0.

        Example:
            >>> error = Metric(lambda y, p: abs(y - p).mean(), on="values", goal="min", name="error").anchored(30.0)
            >>> error.cost(30.0), error.cost(0.0), error.cost(1e9) < 1.0, round(error.natural(0.25), 9)
            (0.5, 0.25, True, 0.0)
        """
        if not self.unbounded:
            return self
        spread = (abs(reference) or 1.0) if spread is None else spread
        if not (math.isfinite(reference) and 0 < spread < math.inf):
            raise MetricError(
                f"metric {self.name!r} is anchored to {reference} with spread={spread}; "
                f"a finite value and a positive spread are expected"
            )
        anchored = copy.copy(self)
        anchored.scale = Squashed(self.goal, float(reference), float(spread), *self.bounds)
        return anchored

    def dear(self) -> Self:
        """The same metric, one of whose calls is known to be dear.

        Example:
            >>> Metric(max, on="labels", goal="max").dear().costly
            True
        """
        dear = copy.copy(self)
        dear.costly = True
        return dear

    def value(self, outputs: Any, targets: Any, groups: Tensor | None = None) -> float:
        """Value of one model in natural units.

        Args:
            outputs: Raw outputs, (n,), (n, 1) or (n, classes); any (n, ...) for "logits" and "embeddings".
            targets: Truth, (n,); (n, columns) of 0 and 1 for multi-label outputs.
            groups: Group numbers, (n,); ignored unless the metric takes groups.
        """
        return answer_of(self, cases_of_one(self, outputs, targets, groups), 0)

    def describe(self, outputs: Any, targets: Any, groups: Tensor | None = None) -> str:
        """What its function is given for one model's outputs and targets, in a line.

        Example:
            >>> metric = Metric(max, on="labels", goal="max")
            >>> metric.describe(torch.zeros(300, 3), torch.zeros(300))
            'labels: int64 (300,), targets: int64 (300,)'
        """
        truth = "rows" if self.hidden else "targets"
        if self.on == "model" or outputs is None:
            return f"the network itself, inputs and {truth}" + (" and groups" if self.groups else "")
        truths, predictions, *rest = cases_of_one(self, outputs, targets, groups).arrays(0)
        parts = [(self.on, predictions), (truth, truths), *(("groups", each) for each in rest)]
        return ", ".join(f"{name}: {kind_of(part)}" for name, part in parts)

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
        values = torch.full((len(outputs),), math.nan, dtype=torch.float64)
        for member, value, error in answers_of(self, (outputs, targets, groups), None, failures):
            if error is not None and failures == "raise":
                raise error
            if error is not None:
                message = f"query of member {member} of {len(outputs)} failed and counts as unknown: {error}"
                warnings.warn(message, MetricFailureWarning, stacklevel=2)
            values[member] = value
        return values

    def by_rows(self, outputs: Any, targets: Any) -> Callable[[Tensor], Tensor]:
        """Values of one model on choices of its rows, as a function of their numbers (replicates, n), by `on_rows`.

        Example:
            >>> from metricopt.metrics import ap50
            >>> truth = [{"boxes": torch.tensor([[0.0, 0, 9, 9]]), "labels": torch.tensor([1])}] * 2
            >>> found = [{**truth[0], "scores": torch.ones(1)}, {**truth[0], "scores": torch.ones(1)}]
            >>> ap50().by_rows(found, truth)(torch.tensor([[0, 1], [1, 1]])).tolist()
            [1.0, 1.0]
        """
        assert self.on_rows is not None
        arrays = cases_of_one(self, outputs, targets, None).arrays(0)
        try:
            return guarded(self.time_limit, self.on_rows, *arrays)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise raised(self, error) from error

    def by_class(self, outputs: Tensor, targets: Tensor, groups: Tensor | None = None) -> ByClass:
        """Scores of its queries added up by class, for a metric that is resampled by query; one call of its function.

        Args:
            outputs: Embeddings of one model, (n, d).
            targets: Classes, (n,).
            groups: Role of each row, (n,), if it takes them.

        Example:
            >>> from metricopt.metrics import recall_at_k
            >>> embeddings = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [-0.1, 0.9]])
            >>> recall_at_k().by_class(embeddings, torch.tensor([0, 0, 1, 1])).sums.tolist()
            [2.0, 2.0]
        """
        assert isinstance(self.resampling, ByQuery)
        cases = cases_of_one(self, outputs, targets, groups)
        assert not isinstance(cases, WholeCases)
        check_sound(self, cases, 0)
        extra = () if cases.groups is None else (cases.groups,)
        try:
            scores = guarded(self.time_limit, self.resampling.scores, cases.targets, cases.predictions, *extra)
        except MetricError as error:
            raise raised(self, error) from error
        return self.resampling.summed(scores[0], targets, groups if self.groups else None)

    def answers(
        self,
        outputs: Any,
        targets: Any,
        groups: Tensor | None = None,
        *,
        members: Sequence[int] | None = None,
    ) -> Iterator[Answer]:
        """The same answers one after the other as they come, failures too, of all members or of those listed.

        Example:
            >>> from metricopt.metrics import mcr
            >>> list(mcr().answers(torch.ones(3, 2), torch.tensor([0, 1]), members=[2]))
            [Answer(member=2, value=0.5, error=None)]
        """
        return answers_of(self, (outputs, targets, groups), members, "nan")

    def value_of_model(self, model: Any, inputs: Any, targets: Any, groups: Tensor | None = None) -> float:
        """Value of `model` on `inputs` in natural units; the model is run in eval mode, without gradients.

        An adapted model is handed over as the network it was made of, which acts with phi for as long as the call
        takes: its own class with its own methods and attributes.

        Example:
            >>> error = Metric(lambda model, x, y: abs(float(model(x) - y)), on="model", goal="min", name="error")
            >>> error.value_of_model(torch.nn.Identity(), torch.tensor(0.75), torch.tensor(1.0))
            0.25
        """
        if self.on != "model":
            return self.value(outputs_of(model, inputs), targets, groups)
        extra = (needed(self, groups),) if self.groups else ()
        with applied(model) as net:
            return asked(self, net, *(copied(part) for part in (inputs, targets, *extra)))

    def cost(self, value: Number) -> Number:
        """`value` as a cost in [0, 1], lower is better; anything beyond the worst bound costs 1.

        In a tensor, NaN marks a query that failed and stays NaN.
        """
        known = value[~value.isnan()].tolist() if isinstance(value, Tensor) else [value]
        for extreme in {min(known), max(known)} if known else ():
            self.range.value(one_number(self.name, extreme))
        return self.scale.cost(value)

    def natural(self, cost: Number) -> Number:
        """The value in natural units whose cost is `cost`."""
        return self.scale.natural(cost)

    def better(self, a: float, b: float) -> bool:
        """Whether `a` is strictly better than `b`, both in natural units; NaN is never better."""
        return a > b if self.goal == "max" else a < b

    def __repr__(self) -> str:
        stated = None if self.bounds == (-math.inf, math.inf) else self.bounds
        bounds = "" if stated == (None if self.on == "values" else (0.0, 1.0)) else f", bounds={stated}"
        groups = ", groups=True" if self.groups else ""
        return f"Metric({self.name!r}, on={self.on!r}, goal={self.goal!r}{bounds}{groups})"
