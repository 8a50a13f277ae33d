"""The front door: a model, a loss, a metric and data in; a model that is better, or the original, out."""

import copy
import time
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from metricopt.acceptance import Comparison, compare, compare_models
from metricopt.adapters import AdaptedModel, Adapter, DynamicBias, FiLM, OutputAffine, adapt
from metricopt.data import check_apart
from metricopt.errors import AdapterError, DataError, MetricError
from metricopt.examples import Examples, Sampling, as_examples
from metricopt.finetune import PAPER, LearntValue, finetune, learn_value_function
from metricopt.ledger import QueryLedger
from metricopt.metrics import Metric, as_metric
from metricopt.records import Outcome
from metricopt.search import Recipe, walk
from metricopt.search.starts import loss_starts
from metricopt.seeding import stream
from metricopt.task import Loss, SupervisedTask
from metricopt.value.diagnostics import rank_correlation

Preset = Literal["default", "paper"]


@dataclass(frozen=True)
class Result:
    """What `optimize` found.

    Attributes:
        model: The adapted model at the accepted phi; at phi = 0, the original, when nothing was accepted.
        metric: The metric that was optimised.
        comparison: Original against proposal on the held-out data, in the metric's natural units.
        proposal: The phi that the search proposed, accepted or not, (dim,).
        outcome: The same with what fewer queries would have given.
        ledger: Every metric query.
        seconds: Wall time.
        rank_correlation: Of the value function's forecasts with what the metric then answered.
    """

    model: AdaptedModel
    metric: Metric
    comparison: Comparison
    proposal: Tensor
    outcome: Outcome
    ledger: QueryLedger
    seconds: float
    rank_correlation: float

    @property
    def accepted(self) -> bool:
        """Whether the proposal was better on data that were never queried."""
        return self.comparison.accepted

    def merge(self) -> nn.Module:
        """A plain module of the original architecture with the adapter folded in."""
        return self.model.merge()

    def evaluate(self, data: Any, *, resamples: int = 500, seed: int = 0) -> Comparison:
        """Original against result on test data, once, to report."""
        examples = as_examples(data, name="test data")
        pair = torch.stack([torch.zeros_like(self.model.phi), self.model.phi.detach()])
        return compare_phi(self.model, self.metric, pair, examples, resamples=resamples, seed=seed)

    def to_dict(self) -> dict[str, Any]:
        """The numbers as plain data for JSON; `before` and `after` are on the held-out data."""
        held = self.comparison
        return {
            "metric": self.metric.name,
            "goal": self.metric.goal,
            "before": held.before,
            "after": held.after if self.accepted else held.before,
            "proposed": held.after,
            "interval": list(held.interval),
            "level": held.level,
            "accepted": self.accepted,
            "confidence": held.confidence,
            "queries": self.ledger.used,
            "failed_queries": self.ledger.failures,
            "resamples": self.ledger.resamples,
            "rank_correlation": self.rank_correlation,
            "seconds": self.seconds,
        }

    def __str__(self) -> str:
        held = self.comparison
        low, high = held.interval
        verdict = "accepted" if self.accepted else "not accepted: the original model is returned"
        return (
            f"{self.metric.name} ({self.metric.goal}): {held.before:.4f} -> {held.after:.4f} on {held.examples} "
            f"held-out examples, gain {low:+.4f} .. {high:+.4f} ({held.level:.0%} interval), {verdict}; "
            f"{self.ledger.used} metric queries, {self.seconds:.1f} s"
        )


def optimize(
    net: nn.Module,
    *,
    loss: Loss,
    metric: Any,
    train: Any,
    val: Any,
    queries: int = 300,
    holdout: Any = None,
    adapter: Adapter | None = None,
    learn_from_val: bool = True,
    preset: Preset = "default",
    recipe: Recipe | None = None,
    sampling: Sampling = "plain",
    batch_size: int = 256,
    seed: int = 0,
    ledger: QueryLedger | None = None,
) -> Result:
    """Finetune a small adapter of `net` until `metric` is better, within `queries` metric queries.

    Args:
        net: A pre-trained model; its weights and buffers stay as they are.
        loss: `loss(outputs, targets)` giving a scalar, the one it was trained with or another.
        metric: A `Metric`, the name of one, a torchmetrics object or a scikit-learn scorer.
        train: Data for the loss: (inputs, targets), a Dataset or a DataLoader.
        val: Data the metric is queried on. 40% of it is set aside to accept the result unless `holdout` is given.
        queries: How often the metric may be evaluated.
        holdout: Data that accept the result; never queried in the search.
        adapter: What phi modulates; by default FiLM (a dynamic bias in nets without normalisation) and the outputs.
        learn_from_val: Whether the loss may be finetuned on the labels of `val` too.
        preset: "default", or "paper" for the paper's recipe, as literal as it can be.
        recipe: Settings of the default search.
        sampling: Mini-batches as they come, or with every class equally often.
        batch_size: Rows a mini-batch.
        seed: Everything random depends on it alone.
        ledger: Counts the queries; pass one with a listener to watch.

    Example:
        >>> from sklearn.metrics import f1_score
        >>> from metricopt.losses import cross_entropy
        >>> draw = torch.Generator().manual_seed(0)
        >>> x = torch.randn(1500, 4, generator=draw)
        >>> y = (x[:, 0] + 0.5 * torch.randn(1500, generator=draw) > 1).long()
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))  # stands for a trained one
        >>> result = optimize(net, loss=cross_entropy, metric=Metric(f1_score, on="labels", goal="max"),
        ...                   train=(x[:500], y[:500]), val=(x[500:], y[500:]), queries=40)
        >>> result.accepted, result.ledger.used
        (True, 40)
    """
    began = time.perf_counter()
    metric = as_metric(metric)
    sets = _three_sets(train, val, holdout, seed)
    ledger = QueryLedger() if ledger is None else ledger
    ledger.budget = queries
    model = adapted(net, adapter, example=sets["train"].inputs[:2], seed=seed)
    task = SupervisedTask(
        model,
        loss=loss,
        metric=metric,
        train=sets["train"],
        search=sets["val"],
        ledger=ledger,
        batch_size=batch_size,
        sampling=sampling,
        labels_visible=learn_from_val,
    )
    outcome, correlation = propose(task, queries=queries, preset=preset, recipe=recipe, seed=seed)
    pair = torch.stack([torch.zeros_like(outcome.phi), outcome.phi])
    comparison = compare_phi(model, metric, pair, sets["holdout"], seed=seed)
    ledger.resamples += 2 * comparison.resamples
    model.phi.data.copy_(outcome.phi if comparison.accepted else torch.zeros_like(outcome.phi))
    return Result(
        model=model,
        metric=metric,
        comparison=comparison,
        proposal=outcome.phi,
        outcome=outcome,
        ledger=ledger,
        seconds=time.perf_counter() - began,
        rank_correlation=correlation,
    )


def propose(
    task: SupervisedTask, *, queries: int, preset: Preset = "default", recipe: Recipe | None = None, seed: int = 0
) -> tuple[Outcome, float]:
    """The search alone: a proposal and the rank correlation of the value function with unseen observations."""
    if preset == "paper":
        return _paper(task, queries=queries, seed=seed)
    recipe = Recipe() if recipe is None else recipe
    starts = loss_starts(task, steps=recipe.start_steps, lr=recipe.start_lr, generator=stream(seed, "starts"))
    found = walk(task, queries=queries, seed=seed, starts=starts, recipe=recipe)
    _check_first_answer(task)
    return found.outcome, rank_correlation(*torch.tensor(found.forecasts).reshape(-1, 2).T)


def _paper(task: SupervisedTask, *, queries: int, seed: int) -> tuple[Outcome, float]:
    """Trajectories, value function, guided finetuning: the original and the end of the path are queried last."""
    learnt: LearntValue = learn_value_function(task, queries=queries - 2, seed=seed, stages=PAPER)
    phi = finetune(task, learnt.value, seed=seed, stages=PAPER).phi
    task.stage = "finetuned"
    task.observe(torch.stack([torch.zeros_like(phi), phi]))
    return Outcome(phi, ((task.ledger.used, phi),)), learnt.health.rank_correlation


def adapted(net: nn.Module, adapter: Adapter | None, *, example: Tensor, seed: int) -> AdaptedModel:
    """A copy of `net` with an adapter; without one named, FiLM where it finds a layer, else a dynamic bias."""
    net = copy.deepcopy(net)
    if adapter is not None:
        return adapt(net, adapter, seed=seed, example=example)
    try:
        return adapt(net, FiLM(dim=32) + OutputAffine(), seed=seed, example=example)
    except AdapterError:
        return adapt(net, DynamicBias(dim=16) + OutputAffine(), seed=seed, example=example)


def compare_phi(
    model: AdaptedModel, metric: Metric, pair: Tensor, examples: Examples, *, resamples: int = 500, seed: int = 0
) -> Comparison:
    """Two phi (2, dim) of one model on the same examples."""
    generator = stream(seed, "compare")
    if metric.on == "model":
        models = (_at(model, pair[0]), _at(model, pair[1]))
        return compare_models(metric, models, examples, generator=generator)
    with torch.no_grad():
        before, after = (model.outputs(phi[None], examples.inputs)[0] for phi in pair)
    return compare(metric, (before, after), examples, resamples=resamples, generator=generator)


def _at(model: AdaptedModel, phi: Tensor) -> AdaptedModel:
    model = copy.deepcopy(model)
    model.phi.data.copy_(phi)
    return model


def _three_sets(train: Any, val: Any, holdout: Any, seed: int) -> dict[str, Examples]:
    """Training, search and acceptance data, apart from each other."""
    sets = {"train": as_examples(train, name="train"), "val": as_examples(val, name="val")}
    if holdout is None:
        sets["val"], sets["holdout"] = _cut(sets["val"], seed)
        check_apart({"train": _plain(sets["train"]), "val": _plain(sets["val"])})
    else:
        sets["holdout"] = as_examples(holdout, name="holdout")
        check_apart({name: _plain(examples) for name, examples in sets.items()})
    return sets


def _cut(val: Examples, seed: int, *, share: float = 0.4) -> tuple[Examples, Examples]:
    if len(val) < 20:
        raise DataError(f"val has {len(val)} rows; expected at least 20, or a holdout of its own: pass more rows")
    order = torch.randperm(len(val), generator=stream(seed, "holdout"))
    cut = len(val) - round(share * len(val))
    return val.rows(order[:cut]), val.rows(order[cut:])


def _plain(examples: Examples) -> tuple[Tensor, Tensor]:
    return examples.inputs, examples.targets


def _check_first_answer(task: SupervisedTask) -> None:
    if task.ledger.queries and task.ledger.failures == len(task.ledger.queries):
        raise MetricError(f"metric {task.metric.name!r} answered none of {task.ledger.used} queries; see the warnings")
