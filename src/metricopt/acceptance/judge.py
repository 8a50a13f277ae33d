"""Several phi of one model on data that nothing was chosen on: which is kept, what it changes, what it may break."""

import copy
import hashlib
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, final

import torch
from torch import Tensor, nn

from metricopt.acceptance.box_changes import box_changes, has_boxes
from metricopt.acceptance.changes import label_changes
from metricopt.acceptance.comparison import Comparison, Kept
from metricopt.acceptance.evidence import RETRIES, Asks, Evidence, Once, bootstrapped, jackknifed
from metricopt.acceptance.panel import Panel
from metricopt.adapters import AdaptedModel
from metricopt.adapters.graph.cache import PrefixCache
from metricopt.core.errors import MetricError, MetricFailureWarning
from metricopt.core.seeding import stream
from metricopt.core.tree import Tree
from metricopt.data.dataset import Data
from metricopt.metrics import Constraint, Metric
from metricopt.metrics.traffic import calls_beyond
from metricopt.run.ledger import Kind, QueryLedger
from metricopt.task.answers import evaluator, on_device, value_of_model

_SURE = 0.8  # share of the resamples in which one candidate is better than a plainer one
_LIKELIER = 0.5  # the same where the luck of either is allowed for
_ROWS = 4096  # computed at once on a device whose memory is scarce
RESAMPLES, FOLDS = 500, 8
"""How often a metric is asked for a decision, about each candidate: a cheap one, and a dear one."""


@final
class Judge:
    """Decides between phi of one model on held-out data; what a phi predicts there is computed once.

    Args:
        model: The adapted model.
        data: Rows that nothing was chosen on.
        ledger: Counts the calls of the metric and recalls those paid for before; one of its own if None.
        seed: Of the resamples.
        widening: By how much errors are larger than the rows show; 1 for rows that nothing was chosen on.
        most_rows: Rows that a slow network is given at the same time at most.
        forward: Computes predictions instead of the model itself, to the same bits and in less time.

    Attributes:
        panel: Workers that a dear metric is asked by; it is asked here if None.

    Example:
        >>> from metricopt.adapters import OutputAffine, adapt
        >>> from metricopt.data.dataset import Examples
        >>> from metricopt.metrics import as_metric
        >>> x = torch.linspace(-1, 1, 100)[:, None]
        >>> data, model = Examples(x, (x[:, 0] > 0).long()), adapt(nn.Linear(1, 1), OutputAffine())
        >>> _ = model.net.weight.data.fill_(1.0), model.net.bias.data.fill_(0.5)
        >>> judge, phis = Judge(model, data), torch.tensor([[0.0, -0.5], [0.0, -0.6]])  # shifted by .5, and too far
        >>> kept, comparison = judge.keep_best(as_metric("accuracy"), phis)
        >>> kept.tolist(), comparison.before, comparison.after, comparison.accepted
        ([0.0, -0.5], 0.75, 1.0, True)
        >>> pair = torch.stack([torch.zeros(2), phis[0]])
        >>> judge.check(Constraint("accuracy", at_least=0.9), pair).holds
        True
        >>> judge.changes(as_metric("accuracy"), pair)["won"]
        [25, 0]
    """

    def __init__(
        self,
        model: AdaptedModel,
        data: Data,
        *,
        ledger: QueryLedger | None = None,
        seed: int = 0,
        widening: float = 1.0,
        most_rows: int | None = None,
        forward: PrefixCache | None = None,
    ) -> None:
        self.model = model
        self.data = data
        self.ledger = QueryLedger() if ledger is None else ledger
        self._seed = seed
        self._widening = widening
        self.panel: Panel | None = None
        # Through the model itself: what is judged is what the user gets.
        self._forward = forward or PrefixCache(
            model, memory=0, probe=data.inputs_at(slice(0, 16)), most_rows=most_rows, beat=self.ledger.pulse.beat
        )
        self._predicted: dict[tuple[bytes, bool], Tree] = {}

    def compare(self, metric: Metric, pair: Tensor, *, resamples: int | None = None) -> Comparison:
        """The second of two phi (2, dim) against the first."""
        return self._climbed(metric, pair, among=1, resamples=resamples)[1]

    def know(self, phi: Tensor, predicted: Tree, *, whole: bool = False) -> None:
        """Take predictions of the rows at one phi (dim,) as given, instead of computing them with the model."""
        self._predicted[phi.numpy().tobytes(), whole] = predicted

    def keep_best(
        self,
        metric: Metric,
        rungs: Tensor,
        *,
        among: int = 1,
        level: float = 0.9,
        resamples: int | None = None,
        luck: Sequence[float] = (),
    ) -> tuple[Tensor, Comparison]:
        """Which of the rungs (k, dim), plainest first, is kept (`climb`), and the original, phi = 0, against it.

        The last one, which is not accepted, if none is. Where they were chosen on these rows, `luck` says by how many
        standard errors each looks better than it is.
        """
        phis = torch.cat([torch.zeros_like(rungs[:1]), rungs])
        lucky = (0.0, *luck) if luck else ()
        kept, comparison = self._climbed(metric, phis, among=among, level=level, resamples=resamples, luck=lucky)
        if math.isnan(comparison.before):
            raise MetricError(
                f"metric {metric.name!r} gave no number for the original model on the {len(self.data)} held-out rows, "
                f"so nothing can be decided; expected one: see the warnings for why, and pass rows it is defined on"
            )
        return phis[kept], comparison

    def _climbed(
        self,
        metric: Metric,
        phis: Tensor,
        *,
        among: int,
        level: float = 0.9,
        resamples: int | None,
        luck: tuple[float, ...] = (),
    ) -> tuple[int, Comparison]:
        candidates = self.predicted(metric, phis)
        found = gathered(
            metric,
            candidates,
            self.data,
            resamples=resamples,
            generator=stream(self._seed, "compare"),
            once=self._once("decision", metric, phis, kind="decisions"),
            recalled=self._recalled("decision", metric, phis),
            ask=self._asks(metric, phis, candidates),
        )
        found = replace(found, widening=self._widening, luck=luck)
        kept, comparison = climb(metric, found, examples=len(self.data), level=level, among=among)
        if luck:
            return kept, replace(comparison, rows="searched")
        if self._widening == 1:
            return kept, comparison
        return kept, replace(comparison, rows="out-of-fold", refit=self._refit(metric, phis[kept]))

    def _refit(self, metric: Metric, phi: Tensor) -> float:
        """Value of the network that would be returned, on the rows that it has learnt from: one call."""
        if metric.on == "outputs":
            seen: Any = self._forward.whole_outputs(phi[None], self.data)[0]
        else:
            seen = self._forward.all_outputs(phi[None], self.data, at_once=_ROWS)[0]
        once = self._once("refit", metric, phi[None], kind="decisions")
        everything = torch.arange(_units(metric, self.data))[None]
        return float(once("all rows", lambda: _evaluator(metric, [seen], self.data)(everything)[:, 0], 1))

    def check(self, constraint: Constraint, pair: Tensor) -> Kept:
        """A constraint at two phi (2, dim), the second of which must keep it."""
        metric = constraint.metric
        candidates = self.predicted(metric, pair)
        once = self._once(f"constraint {constraint.text}", metric, pair, kind="checks")
        everything = torch.arange(_units(metric, self.data))[None]
        before = float(once("original", lambda: _evaluator(metric, candidates[:1], self.data)(everything)[:, 0], 1))
        draw = stream(self._seed, "constraint")
        recalled = self._recalled(f"constraint {constraint.text}", metric, pair)
        found = gathered(
            metric,
            candidates[1:],
            self.data,
            resamples=None,
            generator=draw,
            once=once,
            recalled=recalled,
            ask=self._asks(metric, pair[1:], candidates[1:]),
        )
        found = replace(found, widening=self._widening)
        after = float(found.whole[0])
        tail = 1 - constraint.confidence if constraint.at_most is None else constraint.confidence
        bound = found.bound(0, tail)
        holds = constraint.holds(bound) and constraint.holds(after)
        return Kept(constraint.text, before, after, bound, confidence=constraint.confidence, holds=holds)

    def changes(self, metric: Metric, pair: Tensor) -> dict[str, Any]:
        """Which examples the second of two phi (2, dim) gets right or wrong that the first did not, by class.

        Of detectors, which true boxes. Nothing where outputs are no predictions of classes or the true classes are not
        known here.
        """
        targets = self.data.truth[0]
        if metric.on == "outputs" and not metric.hidden and has_boxes(targets):
            before, after = self.predicted(metric, pair)
            if not has_boxes(before, "scores"):
                return {}
            return box_changes((before, after), targets, lambda row: self.data.inputs_at(slice(row, row + 1))[0])
        if metric.hidden or metric.on not in ("labels", "scores", "logits") or not isinstance(targets, Tensor):
            return {}
        before, after = self.predicted(metric, pair)
        return label_changes((before, after), targets.cpu())

    def predicted(self, metric: Metric, phis: Tensor) -> list[Any]:
        """What the metric is asked about for each phi (k, dim): tensors, whole outputs, or the models themselves."""
        if metric.on == "model":
            return [_at(self.model, phi) for phi in phis]
        return [self._outputs(phi, whole=metric.on == "outputs") for phi in phis]

    def _outputs(self, phi: Tensor, *, whole: bool) -> Tree:
        key = (phi.numpy().tobytes(), whole)
        if key not in self._predicted:
            if whole:
                self._predicted[key] = self._forward.whole_outputs(phi[None], self.data)[0]
            else:
                self._predicted[key] = self._forward.all_outputs(phi[None], self.data, at_once=_ROWS)[0]
        return self._predicted[key]

    def _asks(self, metric: Metric, phis: Tensor, candidates: Sequence[Any]) -> Asks | None:
        """How workers are asked about the candidates, if there are any workers."""
        if self.panel is None:
            return None
        return Asks(self.panel.alone(metric, phis, candidates), partial(self.panel.ahead, metric, phis, candidates))

    def _beyond(self, metric: Metric) -> int:
        return calls_beyond([metric]) + (0 if self.panel is None else self.panel.beyond)

    def _recalled(self, purpose: str, metric: Metric, phis: Tensor) -> Callable[[str], bool]:
        """Whether something was asked by a run that this one continues."""
        about = _about(purpose, metric, phis)
        return lambda key: self.ledger.recalls(f"{about} {key}")

    def _once(self, purpose: str, metric: Metric, phis: Tensor, *, kind: Kind) -> Once:
        about = _about(purpose, metric, phis)

        def once(key: str, ask: Callable[[], Tensor], calls: int) -> Tensor:
            name = f"{about} {key}"
            self.ledger.pulse.beat()
            found = self.ledger.once(name, ask, kind=kind, calls=calls, beyond=lambda: self._beyond(metric))
            assert found is not None
            return found

        return once


def compare(
    metric: Metric,
    pair: Sequence[Any],
    data: Data,
    *,
    level: float = 0.9,
    resamples: int | None = None,
    generator: torch.Generator,
) -> Comparison:
    """Original against new predictions on `data`; rows are resampled together, so the test is paired.

    For a metric computed on the model itself, the models instead of their predictions. Accepting when the two-sided
    interval of `level` 0.9 is above zero is a one-sided test at 5%.

    Example:
        >>> from metricopt.data.dataset import Examples
        >>> from metricopt.metrics import mcr
        >>> truth = torch.arange(200) % 2
        >>> right, wrong = truth * 2.0 - 1, torch.ones(200)
        >>> data = Examples(torch.zeros(200, 1), truth)
        >>> compare(mcr(), (wrong, right), data, generator=torch.Generator().manual_seed(0)).accepted
        True
    """
    found = gathered(metric, pair, data, resamples=resamples, generator=generator)
    return climb(metric, found, examples=len(data), level=level)[1]


def gathered(
    metric: Metric,
    candidates: Sequence[Any],
    data: Data,
    *,
    resamples: int | None,
    generator: torch.Generator,
    once: Once = lambda _key, ask, _calls: ask(),
    recalled: Callable[[str], bool] = lambda _key: False,
    ask: Asks | None = None,
) -> Evidence:
    """Evidence about candidates: a cheap metric's by resampling, a dear one's by leaving out folds."""
    evaluate = _evaluator(metric, candidates, data)
    count, units = len(candidates), _units(metric, data)
    if not metric.resampled and resamples is None:
        folds = min(FOLDS, units)
        return jackknifed(
            evaluate,
            units,
            folds,
            generator,
            candidates=count,
            once=once,
            recalled=recalled,
            ask=Asks(lambda one: _evaluator(metric, candidates[one : one + 1], data)) if ask is None else ask,
        )
    calls = metric.resampling.calls(1) - 1
    return bootstrapped(evaluate, units, resamples or RESAMPLES, generator, candidates=count, once=once, calls=calls)


def climb(
    metric: Metric, found: Evidence, *, examples: int, level: float = 0.9, among: int = 1
) -> tuple[int, Comparison]:
    """Which of the candidates, plainest first, is kept instead of the original, which is the first of the evidence.

    Each of k has to be better than the original, tested at 1/k of the error that `level` allows, so that all together
    err no more. Where a plainer one is, the next is kept instead if it is better than that in four of five resamples:
    to ask for as much again would lose most of what is found beyond a threshold, to ask for nothing would follow luck.
    Where luck is allowed for, they are stages of one search: each is tested at the whole error, and the later one is
    kept if it is the likelier to be better.

    Args:
        metric: What they are compared by.
        found: Values of the original and of one candidate or more on the same choices of rows.
        examples: Rows that nothing was chosen on.
        level: Of the two-sided interval of the gain of a single candidate.
        among: How many candidates there were, if some have been turned down for other reasons.

    Returns:
        The candidate kept and the original against it; the last one, which is not accepted, if none is kept.

    Example:
        >>> from metricopt.data.dataset import Examples
        >>> from metricopt.metrics import mcr
        >>> truth, draw = torch.arange(400) % 2, torch.Generator().manual_seed(0)
        >>> right, half, wrong = truth * 2.0 - 1, torch.ones(400), 1 - truth * 2.0
        >>> data = Examples(torch.zeros(400, 1), truth)
        >>> evidence = gathered(mcr(), [wrong, half, right], data, resamples=None, generator=draw)
        >>> climb(mcr(), evidence, examples=400)[0]
        2
    """
    sign = 1.0 if metric.goal == "max" else -1.0
    candidates = len(found.whole)
    # Stages of one search, whose luck is allowed for as if nothing but luck had chosen them, do not err each anew.
    judged, sure = (1, _LIKELIER) if found.luck else (max(among, candidates - 1), _SURE)
    each = 1 - (1 - level) / judged

    def between(one: int, other: int) -> Comparison:
        gains = found.gains(one, other, sign=sign)
        return Comparison(
            before=float(found.whole[one]),
            after=float(found.whole[other]),
            interval=found.interval(one, other, sign=sign, level=each),
            level=each,
            confidence=found.confidence(one, other, sign=sign),
            resamples=gains.numel(),
            examples=examples,
            judged=judged,
        )

    kept = 0
    for candidate in range(1, candidates):
        if between(0, candidate).accepted and (not kept or between(kept, candidate).confidence >= sure):
            kept = candidate
    shown = kept or candidates - 1
    return shown, between(0, shown)


def decision_calls(metric: Metric, candidates: int) -> int:
    """How often a metric is asked at most to decide between the original and so many candidates.

    Example:
        >>> from metricopt.metrics import as_metric
        >>> decision_calls(as_metric("f1"), 1)
        1002
    """
    cheap = metric.resampling.calls(RESAMPLES)
    return (1 + candidates) * (cheap + (RETRIES if cheap == 1 else 0) if metric.resampled else FOLDS + 1 + RETRIES)


def _evaluator(metric: Metric, candidates: Sequence[Any], data: Data) -> Callable[[Tensor], Tensor]:
    """A function from choices of rows, or of classes (choices, n), to values (candidates, choices)."""

    def of_one(candidate: Any) -> Callable[[Tensor], Tensor]:
        if isinstance(candidate, nn.Module):
            return lambda index: torch.stack([_value(metric, candidate, data, rows) for rows in index])
        return evaluator(metric, candidate, data.truth)

    each = [of_one(candidate) for candidate in candidates]
    return lambda index: torch.stack([values_on(index) for values_on in each])


def _units(metric: Metric, data: Data) -> int:
    """How many rows, or classes, a metric is resampled by."""
    return metric.resampling.units(data.truth, len(data))


def _value(metric: Metric, model: nn.Module, data: Data, index: Tensor) -> Tensor:
    batch = data.batch(index, seed=0)
    if isinstance(model, AdaptedModel):
        batch = on_device(model, batch)
    try:
        value = value_of_model(metric, model, batch)
    except MetricError as error:
        warnings.warn(str(error), MetricFailureWarning, stacklevel=6)
        value = math.nan
    return torch.tensor(value, dtype=torch.float64)


def _about(purpose: str, metric: Metric, phis: Tensor) -> str:
    return f"{purpose} {metric.name} {hashlib.sha256(phis.detach().cpu().numpy().tobytes()).hexdigest()[:16]}"


def _at(model: AdaptedModel, phi: Tensor) -> AdaptedModel:
    model = copy.deepcopy(model)
    model.phi.data.copy_(phi)
    return model
