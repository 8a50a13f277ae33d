"""The task most users have: an adapted model with a loss on training data and a metric on data of its own."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import get_args

import torch
from torch import Tensor

from metricopt.adapters import AdaptedModel
from metricopt.adapters.device import on_model
from metricopt.adapters.graph.cache import DEFAULT_MEMORY, PrefixCache
from metricopt.adapters.graph.split import Crossing
from metricopt.core.errors import DataError
from metricopt.core.registry import one_of
from metricopt.data.dataset import Examples, Kind, Sampling, check_classes, mixed_stream
from metricopt.metrics import Metric
from metricopt.metrics.constraint import Constraint, binomial_std
from metricopt.metrics.metric import Answer
from metricopt.run.ledger import Query, QueryLedger, Sheet
from metricopt.task.answers import answers, resampled_costs, settled, warned
from metricopt.task.base import Loss, Task
from metricopt.task.fisher import fisher_features
from metricopt.task.group_gradients import loss_bands, loss_gradient, mean_loss
from metricopt.task.views import View, views_of

Augment = Callable[[Tensor, torch.Generator], Tensor]
# Inputs, or the activations that stand for them, and targets: one batch a member.
Batch = tuple[Tensor | Crossing, Tensor]

# Rows of predictions, of all members together, that metrics are given at once.
_ROWS_IN_MEMORY = 2**22
# What is shown of one phi has about so many numbers, from so many rows at least.
_FEATURES, _LEAST_ROWS = 20_000, 100
_REMEMBERED = 4  # phi with their costs on resamples


class SupervisedTask(Task):
    """An adapted model with a loss on training data and a metric on data of its own.

    The model may be on any device: phi comes from, and losses go to, wherever phi is, costs are on the CPU.

    Args:
        model: The adapted model.
        loss: `loss(outputs, targets)` giving a scalar, both on the model's device.
        metric: What to improve.
        train: Data the loss is taken on.
        search: Data the metric is queried on.
        ledger: Counts and limits the queries.
        batch_size: Rows a mini-batch.
        sampling: "plain", or "balanced" to draw each class equally often.
        labels_visible: Whether the search data's targets may be used for more than the metric.
        rows_at_once: Outputs are computed for at most this many rows (members x examples) at a time.
        cache: Bytes of memory for activations that phi cannot change, 0 for none; or another task's of the same model.
        augment: `augment(inputs, generator)` changes the inputs of each training batch, (population, batch, ...), on
            the device they were given on; the generator is the CPU's.
        keep: Constraints, checked on the same predictions as the metric.

    Example:
        >>> from metricopt.adapters import OutputAffine, adapt
        >>> from metricopt.metrics import mcr
        >>> data = Examples(torch.randn(40, 3, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 2)
        >>> model = adapt(torch.nn.Linear(3, 2), OutputAffine())
        >>> cross_entropy = torch.nn.functional.cross_entropy
        >>> task = SupervisedTask(model, loss=cross_entropy, metric=mcr(), train=data, search=data)
        >>> task.observe(torch.zeros(5, task.dim)).shape, task.ledger.used
        (torch.Size([5]), 5)
    """

    def __init__(
        self,
        model: AdaptedModel,
        *,
        loss: Loss,
        metric: Metric,
        train: Examples,
        search: Examples,
        ledger: QueryLedger | None = None,
        batch_size: int = 256,
        sampling: Sampling = "plain",
        labels_visible: bool = False,
        rows_at_once: int = 8192,
        keep: Sequence[Constraint] = (),
        cache: int | PrefixCache = DEFAULT_MEMORY,
        augment: Augment | None = None,
    ) -> None:
        one_of(sampling, get_args(Sampling), what="sampling")
        if batch_size < 1:
            raise DataError(f"batch_size is {batch_size}; expected at least 1 row a mini-batch")
        if not metric.hidden:
            check_classes(train, search, name="the validation data")
        self.model, self.loss_function, self.metric = model, loss, metric
        self.train, self.search = train.with_truth_on_host(), search.with_truth_on_host()
        self.ledger = QueryLedger() if ledger is None else ledger
        self.batch_size, self.rows_at_once = batch_size, rows_at_once
        self.sampling: Sampling = sampling
        self.labels_visible = labels_visible
        self.keep = tuple(keep)
        self._margins: list[float] | None = None
        self._resamples: dict[tuple[bytes, int], Tensor] = {}
        self.dim = model.dim
        self.augment = augment
        self._room = cache

    @cached_property
    def cache(self) -> PrefixCache:
        """Activations that phi cannot change; `cache.reason` says why there are none."""
        cache = self._room
        if not isinstance(cache, PrefixCache):
            cache = PrefixCache(self.model, memory=cache, probe=self.train.inputs)
        # At once, not when first asked about: a resumed run asks less, and its last bits must not depend on that.
        cache.fill(self.search)
        if self.augment is not None and not cache.reason:
            cache.reason = "the training data are augmented"
        return cache

    @property
    def asks_cheaply(self) -> bool:
        """Whether any process may ask the metric: not if a call is dear or goes out of this machine."""
        return not any(metric.costly or metric.hidden for metric in (self.metric, *(c.metric for c in self.keep)))

    @property
    def forks(self) -> bool:
        """Whether processes forked from this one can compute losses too: CUDA and the like do not work there."""
        return self.model.phi.device.type == "cpu"

    def prepare(self) -> None:
        """Cache the activations of the training data, and measure how far inside their bounds constraints stay."""
        if self.augment is None:
            self.cache.fill(self.train)
        self.margins()

    def batches(self, population: int, generator: torch.Generator) -> Iterator[Batch]:
        """Endless mini-batches of the training data, one a member."""
        return self._mixed([(self.train, self.sampling, 1)], population, generator)

    def _mixed(self, kinds: Sequence[Kind], population: int, generator: torch.Generator) -> Iterator[Batch]:
        for wanted in mixed_stream(kinds, population, batch_size=self.batch_size, generator=generator):
            targets = torch.cat([data.targets[index] for data, index in wanted])
            if self.augment is None:
                yield self.cache.gather(wanted), targets
            else:
                yield self.augment(torch.cat([data.inputs[index] for data, index in wanted]), generator), targets

    def loss(self, phi: Tensor, batch: Batch) -> Tensor:
        """Each member's loss on its own mini-batch, (population,), on the device of phi."""
        rows, targets = batch[0], on_model(self.model, batch[1])
        outputs = self.cache.outputs(phi, rows, paired=True)
        if len(outputs) == 1:
            return self.loss_function(outputs[0], targets[0]).reshape(1).to(phi)
        return torch.vmap(self.loss_function)(outputs, targets).to(phi)

    def start_batches(self, generator: torch.Generator) -> tuple[int, Iterator[Batch]]:
        """Plain and class-balanced batches of the training data and, where labels are visible, of the search data.

        Of the search data every second row is left out, for `sound_starts`.
        """
        sets = [(self.train, 1), (self.search, 2)] if self.labels_visible else [(self.train, 1)]
        kinds: list[Kind] = [(d, sampling, every) for d, every in sets for sampling in self._samplings]
        return len(kinds), self._mixed(kinds, 1, generator)

    @property
    def _samplings(self) -> list[Sampling]:
        return ["plain", "balanced"] if self.train.has_classes else ["plain"]

    @property
    def plain_starts(self) -> int:
        """As many as there are ways to draw from the training data; the others have seen labels of the search data."""
        return len(self._samplings)

    def sound_starts(self, paths: Tensor) -> Tensor:
        """Points on paths (points, kinds, dim) of loss finetuning that are worth a query, (at most kinds, dim).

        Those finetuned on the search data's own labels look good there whatever they are worth, so the point taken is
        where the loss on the rows left out is lowest, by class where it was finetuned by class; none if that is 0.
        """
        if not self.labels_visible:
            return paths[-1]
        first = len(self._samplings)
        tried = torch.cat([torch.zeros(1, first, self.dim), paths[:, first:]])
        outputs = self.search_outputs(tried.flatten(0, 1), every=1)[:, 1::2].unflatten(0, tried.shape[:2])
        outputs, targets = on_model(self.model, outputs), on_model(self.model, self.search.targets[1::2])
        found = []
        for kind, sampling in enumerate(self._samplings):
            losses = [
                mean_loss(self.loss_function, each, targets, by_class=sampling == "balanced")
                for each in outputs[:, kind]
            ]
            best = int(torch.tensor(losses).nan_to_num(torch.inf).argmin())
            found += [tried[best, kind]] if best > 0 else []
        return torch.stack([*paths[-1, :first], *found])

    def outputs(self, phi: Tensor, inputs: Tensor) -> Tensor:
        """Outputs for shared inputs without a graph, (population, n, ...), in the processor's memory."""
        return self.cache.chunked(phi, inputs, at_once=self.rows_at_once)

    def search_outputs(self, phi: Tensor, *, every: int = 1) -> Tensor:
        """Outputs on the search data, or on every so manyth row, without a graph, (population, n, ...)."""
        return self.cache.all_outputs(phi, self.search, every=every, at_once=self.rows_at_once)

    def costs(self, phi: Tensor) -> Tensor:
        """Each member's metric on the search data as a cost, NaN where the metric failed."""
        parts = phi.split(self.members_at_once)
        return self.metric.cost(
            torch.cat([settled(self._answers(p, self._outputs(p), range(len(p))), len(p)) for p in parts])
        )

    @property
    def members_at_once(self) -> int:
        """How many members' predictions on the search data are in memory at the same time."""
        return max(1, _ROWS_IN_MEMORY // len(self.search))

    def ask(self, sheet: Sheet) -> None:
        """Write the missing answers on the sheet, each as soon as it is there."""
        outputs, size, left = self._outputs(sheet.phi), len(sheet.phi), len(sheet.missing)
        kept = [settled(self._answers(sheet.phi, outputs, sheet.missing, c.metric), size) for c in self.keep]
        broken = torch.zeros(size, dtype=torch.float64)
        for constraint, values, margin in zip(self.keep, kept, self.margins(), strict=True):
            broken += constraint.violation(values, margin=margin)
        for answer in self._answers(sheet.phi, outputs, sheet.missing):
            member, value, left = answer.member, answer.value, left - 1
            query = Query(
                sheet.stage,
                math.nan if answer.error else self.metric.cost(value),
                None if answer.error else value,
                failure=warned(answer, size),
                kept=tuple(float(values[member]) for values in kept),
                violation=float(broken[member]),
            )
            sheet.write(member, query, sync=self.metric.costly or left == 0)

    def _outputs(self, phi: Tensor) -> Tensor | None:
        needed = any(metric.on != "model" for metric in (self.metric, *(c.metric for c in self.keep)))
        return self.search_outputs(phi) if needed else None

    def _answers(
        self, phi: Tensor, outputs: Tensor | None, members: Sequence[int], metric: Metric | None = None
    ) -> Iterator[Answer]:
        metric = self.metric if metric is None else metric
        return answers(metric, outputs, self.search, model=self.model, phi=phi, members=members)

    def margins(self) -> list[float]:
        """How far inside each constraint's bound the search stays, in natural units, measured once at phi = 0."""
        if self._margins is None:
            self._margins = [constraint.margin(self._std_of(constraint.metric)) for constraint in self.keep]
        return self._margins

    def _std_of(self, metric: Metric) -> float:
        low, high = metric.bounds
        origin = torch.zeros(1, self.dim)
        if metric.costly:
            value = float(settled(self._answers(origin, self._outputs(origin), [0], metric), 1))
            return binomial_std((low + high) / 2 if math.isnan(value) else value, metric, len(self.search))
        costs = self._resampled(origin[0], 100, metric)
        known = costs[~costs.isnan()]
        return (high - low) * float(known.std()) if len(known) > 1 else 0.0

    def directions(self, phi: Tensor, *, rows: int = 4096, bands: int = 3) -> Tensor:
        """Loss gradients of the examples of each class and, within it, of low, middle and high loss: (groups, dim).

        They span the trade-offs between kinds of examples that metrics are about: the guidance of Eq. 3 with a
        basis that fits the metric (docs/recipe.md).
        """
        data = self.search if self.labels_visible else self.train
        # Evenly spread rows: the first ones of data sorted by class would be of one class.
        index = torch.arange(0, len(data), math.ceil(len(data) / rows), device=data.targets.device)
        group = loss_bands(self.cache, self.loss_function, phi, (data, index), bands=bands, at_once=self.rows_at_once)
        groups = [(data, index[group == g]) for g in torch.unique(group).tolist()]
        # Group by group, so that each row goes backward once and not once for every group.
        return torch.stack([loss_gradient(self.cache, self.loss_function, phi, rows) for rows in groups])

    def shown(self, phi: Tensor, *, rows: int) -> Tensor:
        """Outputs on evenly spread rows of the search data, (population, n, columns); fewer rows of many columns."""
        columns = max(1, self._columns)
        rows = min(rows, max(_LEAST_ROWS, _FEATURES // columns))
        outputs = self.search_outputs(phi, every=math.ceil(len(self.search) / rows)).to(phi)
        return outputs.reshape(*outputs.shape[:2], -1)

    @cached_property
    def _columns(self) -> int:
        first = self.search_outputs(torch.zeros(1, self.dim), every=len(self.search))
        return first.numel() // first.shape[1]

    @property
    def views(self) -> tuple[View, ...]:
        """Ways in which the metric may look at the outputs, by what it is given of them."""
        return views_of(self.metric.on)

    def responses(self, outputs: Tensor) -> Tensor:
        """Outputs scaled so that squared differences are Fisher distances between probabilities.

        A metric that is shown raw outputs may well see what no probability tells, such as a shift of all logits of a
        row: for it they are only divided by their spread.
        """
        return fisher_features(outputs, raw=self.metric.on in ("embeddings", "logits") and outputs.shape[-1] > 2)

    @property
    def shift_coordinates(self) -> Tensor:
        """Coordinates of phi that shift one output each."""
        where = self.model.shift_coordinates
        return torch.zeros(0, dtype=torch.long) if where is None else torch.arange(self.dim)[where]

    def noise_std(self, *, resamples: int = 100) -> float:
        """Bootstrap standard deviation of the metric at phi = 0 over the rows of the search data."""
        most = 0.5 / math.sqrt(len(self.search))  # of a mean of numbers in [0, 1]
        if self.metric.costly:
            return most
        costs = self._resampled(torch.zeros(self.dim), resamples)
        known = costs[~costs.isnan()]
        return float(known.std()) if len(known) > 1 else most

    def doubt(self, phi: Tensor, other: Tensor, *, resamples: int = 24) -> float:
        """Paired bootstrap standard error of the difference of two costs over the rows of the search data."""
        if self.metric.costly:
            one, two = self.responses(self.shown(torch.stack([phi, other]), rows=1000))
            return float((one - two).norm()) / math.sqrt(len(self.search))
        difference = self._remembered(phi, resamples) - self._remembered(other, resamples)
        answered = difference[~difference.isnan()]
        return float(answered.std()) if len(answered) > 1 else math.inf

    def _remembered(self, phi: Tensor, resamples: int) -> Tensor:
        """`_resampled`, of the last few phi asked about for nothing: the same ones are compared again and again."""
        key = (phi.numpy().tobytes(), resamples)
        costs = self._resamples.pop(key, None)
        self._resamples[key] = self._resampled(phi, resamples) if costs is None else costs
        if len(self._resamples) > _REMEMBERED:
            del self._resamples[next(iter(self._resamples))]
        return self._resamples[key]

    def _resampled(self, phi: Tensor, resamples: int, metric: Metric | None = None) -> Tensor:
        """Costs of one phi (dim,) on resamples of the search rows, the same rows every time, (resamples,)."""
        outputs = self.search_outputs(phi[None])[0]
        metric = self.metric if metric is None else metric
        costs = resampled_costs(metric, outputs, self.search, resamples=resamples, at_once=self.members_at_once)
        self.ledger.resamples += resamples
        return costs
