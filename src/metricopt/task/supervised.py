"""The task most users have: an adapted model with a loss on training data and a metric on data of its own."""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from metricopt.adapters import AdaptedModel
from metricopt.adapters.device import on_model
from metricopt.adapters.graph.cache import DEFAULT_MEMORY, PrefixCache
from metricopt.adapters.graph.recall import Remembered
from metricopt.core.errors import DataError
from metricopt.core.tree import Tree
from metricopt.core.tree import rows as chosen_rows
from metricopt.data.dataset import Batch, Data, Examples
from metricopt.data.sampling import Kind, Sampling, checked_sampling, mixed_stream
from metricopt.metrics import Metric
from metricopt.metrics.asking import Answer
from metricopt.task.answers import answers, resampled_costs, settled, warned
from metricopt.task.base import Loss, Reply, Task
from metricopt.task.loss_rule import LossRule, loss_rule
from metricopt.task.predictions import Predictions

if TYPE_CHECKING:
    from metricopt.task.supervised_probe import SupervisedProbe

Augment = Callable[[Tensor, torch.Generator], Tensor]
# Inputs, or the activations that stand for them, and targets, of all members; or, where these are no single tensors,
# one batch a member.
Batches = tuple[Any, Tensor] | list[Batch]

# Rows of predictions, of all members together, that metrics are given at once.
_ROWS_IN_MEMORY = 2**22
_BYTES_IN_MEMORY = 2**28  # of them, as of many embeddings of hundreds of dimensions


class Recalled(NamedTuple):
    """Examples that a network recalls, in place of their inputs."""

    examples: list[Remembered]


class SupervisedTask(Task):
    """An adapted model with a loss on training data and a metric on data of its own.

    The model may be on any device: phi comes from, and losses go to, wherever phi is, costs are on the CPU.

    Args:
        model: The adapted model.
        loss: `loss(outputs, targets)` giving a scalar, both on the model's device; the model's own, or cross-entropy,
            if None. One whose second argument is called `batch` gets the whole batch.
        metric: What to improve.
        train: Data the loss is taken on.
        search: Data the metric is queried on.
        batch_size: Rows a mini-batch.
        sampling: "plain", "balanced" to draw each class equally often, or `PerClass` for several rows of a class.
        labels_visible: Whether the search data's targets may be used for more than the metric.
        rows_at_once: Outputs are computed for at most this many rows (members x examples) at a time.
        cache: Bytes of memory for activations that phi cannot change, 0 for none; or another task's of the same model.
        augment: `augment(inputs, generator)` changes the inputs of each training batch, (population, batch, ...), on
            the device they were given on; the generator is the CPU's.

    Attributes:
        most_rows: Rows that a slow network is given at the same time at most; to be set before anything is computed.
        beat: Called after each pass of the network over some rows.

    Example:
        >>> from metricopt.adapters import OutputAffine, adapt
        >>> from metricopt.metrics import mcr
        >>> data = Examples(torch.randn(40, 3, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 2)
        >>> model = adapt(torch.nn.Linear(3, 2), OutputAffine())
        >>> task = SupervisedTask(model, metric=mcr(), train=data, search=data)
        >>> task.costs(torch.zeros(5, task.dim)).shape
        torch.Size([5])
    """

    def __init__(
        self,
        model: AdaptedModel,
        *,
        metric: Metric,
        train: Data,
        search: Data,
        loss: Loss | None = None,
        batch_size: int = 256,
        sampling: Sampling = "plain",
        labels_visible: bool = False,
        rows_at_once: int = 8192,
        cache: int | PrefixCache = DEFAULT_MEMORY,
        augment: Augment | None = None,
    ) -> None:
        if batch_size < 1:
            raise DataError(f"batch_size is {batch_size}; expected at least 1 row a mini-batch")
        self.model = model
        self.metric = metric
        self.train = train.with_truth_on_host() if isinstance(train, Examples) else train
        self.search = search.with_truth_on_host() if isinstance(search, Examples) else search
        self.loss_rule: LossRule = loss_rule(loss, model, self.train)
        self.batch_size = batch_size
        self.rows_at_once = rows_at_once
        self.sampling: Sampling = checked_sampling(sampling, batch_size)
        self.labels_visible = labels_visible
        self.dim = model.dim
        self.augment = augment
        self._room = cache
        self._is_anchored = False
        self._vectorises: bool | None = None  # not tried yet
        self.most_rows: int | None = None
        self.beat: Callable[[], None] = lambda: None

    @cached_property
    def cache(self) -> PrefixCache:
        """Activations that phi cannot change; `cache.reason` says why there are none."""
        cache = self._room
        if not isinstance(cache, PrefixCache):
            cache = PrefixCache(
                self.model,
                memory=cache,
                probe=self.train.inputs_at(slice(0, 16)),
                most_rows=self.most_rows,
                beat=lambda: self.beat(),
            )
        # At once, not when first asked about: a resumed run asks less, and its last bits must not depend on that.
        cache.fill(self.search)
        if self.augment is not None and not cache.reason:
            cache.reason = "the training data are augmented"
        return cache

    @cached_property
    def simple(self) -> bool:
        """Whether inputs, targets and outputs are one tensor each: then all members are computed at once."""
        whole = [data for data in (self.train, self.search) if isinstance(data, Examples) and data.simple]
        reader = self.model.reader
        tensor_out = reader is not None and reader.path == ()
        return len(whole) == 2 and tensor_out and not self.loss_rule.of_batch

    @property
    def asks_cheaply(self) -> bool:
        """Whether any process may ask the metric: not if a call is dear or goes out of this machine."""
        return not (self.metric.costly or self.metric.hidden)

    @property
    def forks(self) -> bool:
        """Whether processes forked from this one can compute losses too: CUDA and the like do not work there."""
        return self.model.phi.device.type == "cpu"

    @property
    def resampled(self) -> bool:
        """Whether its metric is asked on resamples: not if a call is dear or rows must not be repeated."""
        return self.metric.resampled

    @property
    def rows(self) -> int:
        """Rows that the metric is computed on."""
        return len(self.search)

    def prepare(self) -> None:
        """Cache the activations of the training data, where these are in memory and not augmented."""
        if self.augment is None and isinstance(self.train, Examples):
            self.cache.fill(self.train)

    def probe(self) -> "SupervisedProbe":
        """What a search may look at besides answers."""
        from metricopt.task.supervised_probe import SupervisedProbe

        return SupervisedProbe(self)

    def batches(self, population: int, generator: torch.Generator) -> Iterator[Batches]:
        """Endless mini-batches of the training data, one a member."""
        return self.mixed_batches([(self.train, self.sampling, 1)], population, generator)

    def mixed_batches(
        self, kinds: Sequence[Kind], population: int, generator: torch.Generator, *, most: int | None = None
    ) -> Iterator[Batches]:
        """Endless mini-batches of several kinds, of at most so many rows, one a member of each kind's population."""
        rows = self.batch_size if most is None else min(most, self.batch_size)
        for wanted in mixed_stream(kinds, population, batch_size=rows, generator=generator):
            yield self._tensors(wanted, generator) if self.simple else self._batches(wanted, generator)

    def _tensors(self, wanted: list[tuple[Any, Tensor]], generator: torch.Generator) -> Batches:
        targets = torch.cat([data.targets[index] for data, index in wanted])
        if self.augment is None:
            return self.cache.gather(wanted), targets
        return self.augment(torch.cat([data.inputs[index] for data, index in wanted]), generator), targets

    def _batches(self, wanted: list[tuple[Data, Tensor]], generator: torch.Generator) -> Batches:
        members = [(data, rows) for data, index in wanted for rows in index]
        seeds = torch.randint(2**31, (len(members),), generator=generator).tolist()
        found = [self._batch(data, rows, seed) for (data, rows), seed in zip(members, seeds, strict=True)]
        if self.augment is None:
            return found
        return [batch._replace(inputs=self.augment(batch.inputs[None], generator)[0]) for batch in found]

    def _batch(self, data: Data, rows: Tensor, seed: int) -> Batch:
        """Rows by number; of a network that recalls examples, these in place of their inputs."""
        if self.augment is not None or not self.loss_rule.of_output or not isinstance(data, Examples):
            return data.batch(rows, seed=seed)
        return self.recalled(data, rows) or data.batch(rows, seed=seed)

    def recalled(self, data: Data, rows: Tensor) -> Batch | None:
        """Rows by number as the network recalls them; None if it does not."""
        kept = self.cache.remembered(data, rows)
        if kept is None:
            return None
        targets, groups = data.truth
        return Batch(Recalled(kept), chosen_rows(targets, rows), None if groups is None else groups[rows])

    def loss(self, phi: Tensor, batch: Batches) -> Tensor:
        """Each member's loss on its own mini-batch, (population,), on the device of phi."""
        if isinstance(batch, list):
            losses = [self._loss(member, each) for member, each in zip(phi, batch, strict=True)]
            return torch.stack([loss.reshape(()) for loss in losses]).to(phi)
        rows, targets = batch[0], on_model(self.model, batch[1])
        outputs = self.cache.outputs(phi, rows, paired=True)
        return self.losses(outputs, targets).to(phi)

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Losses of outputs (population, n, ...), at once where the loss can be vectorised.

        One that chooses pairs or triplets by what it holds, as miners do, is called for one member after the other.
        """
        function = self.loss_rule.function
        if len(outputs) > 1 and self._vectorises is None:
            self._vectorises = vectorises(function, outputs, targets)
        if len(outputs) > 1 and self._vectorises:
            return torch.vmap(function)(outputs, targets)
        return torch.stack([function(o, t).reshape(()) for o, t in zip(outputs, targets, strict=True)])

    def _loss(self, phi: Tensor, batch: Batch) -> Tensor:
        if not isinstance(batch.inputs, Recalled):
            return self.loss_rule(self.model, phi, batch)
        output = self.cache.output(phi.to(self.model.phi), batch.inputs.examples)
        return self.loss_rule.value(output, batch._replace(targets=on_model(self.model, batch.targets)))

    def outputs(self, phi: Tensor, inputs: Tensor) -> Tensor:
        """Outputs for shared inputs without a graph, (population, n, ...), in the processor's memory."""
        return self.cache.chunked(phi, inputs, at_once=self.rows_at_once)

    def search_outputs(self, phi: Tensor, *, every: int = 1) -> Tensor:
        """Tensors read from outputs on the search data, or on every so manyth row, (population, n, ...)."""
        return self.cache.all_outputs(phi, self.search, every=every, at_once=self.rows_at_once)

    def whole_outputs(self, phi: Tensor) -> list[Tree]:
        """For each member all that the network gives on the search data, one row an example."""
        return self.cache.whole_outputs(phi, self.search)

    def predictions(self, phi: Tensor) -> Predictions:
        """What the metric sees of each member: tensors, whole outputs, or the model itself at its phi."""
        if self.metric.on == "outputs":
            whole = self.whole_outputs(phi)
            read = self.search_outputs(phi) if self.model.reader is not None and self.simple else None
            return Predictions(phi, read, whole)
        needed = self.metric.on != "model" and self.model.reader is not None
        return Predictions(phi, self.search_outputs(phi) if needed else None)

    def costs(self, phi: Tensor) -> Tensor:
        """Each member's metric on the search data as a cost, NaN where the metric failed."""
        parts = [self.predictions(part) for part in phi.split(self.members_at_once)]
        return self.metric.cost(torch.cat([self.values(part, self.metric, range(len(part.phi))) for part in parts]))

    @property
    def members_at_once(self) -> int:
        """How many members' predictions on the search data are in memory at the same time."""
        return max(1, min(_ROWS_IN_MEMORY // len(self.search), _BYTES_IN_MEMORY // self._bytes))

    @cached_property
    def _bytes(self) -> int:
        """Of one member's predictions on the search data, where these are tensors."""
        if self.model.reader is None or not self.simple:
            return 1
        first = self.search_outputs(torch.zeros(1, self.dim), every=len(self.search))
        return max(1, first.nbytes * len(self.search))

    def replies(self, predictions: Predictions, members: Sequence[int]) -> Iterator[Reply]:
        """What the metric says about the listed members, each as soon as it is known."""
        population = len(predictions.phi)
        for answer in self._answers(predictions, self.metric, members):
            yield self.reply(answer, population)

    def reply(self, answer: Answer, population: int) -> Reply:
        """What an answer of the metric means as a cost; a failed one is warned of."""
        if answer.error is None:
            return Reply(answer.member, self.metric.cost(answer.value), answer.value)
        return Reply(answer.member, math.nan, None, warned(answer, population))

    def anchored(self, cost: float, value: float) -> float:
        """The cost of a value; a metric without bounds is anchored to the first one, the original model's."""
        if not self.metric.unbounded:
            return cost
        if not self._is_anchored:
            self.metric, self._is_anchored = self.metric.anchored(value), True
        return self.metric.cost(value)

    @property
    def metrics(self) -> list[Metric]:
        """Its metric."""
        return [self.metric]

    def values(self, predictions: Predictions, metric: Metric, members: Sequence[int]) -> Tensor:
        """A metric's values of the listed members in natural units, NaN where it failed: (population,)."""
        return settled(self._answers(self.predictions_for(predictions, metric), metric, members), len(predictions.phi))

    def _answers(self, predictions: Predictions, metric: Metric, members: Sequence[int]) -> Iterator[Answer]:
        return answers(metric, predictions, self.search, model=self.model, members=members)

    def predictions_for(self, predictions: Predictions, metric: Metric) -> Predictions:
        """The predictions with what this metric needs of them, should the task's own not have needed it."""
        if metric.on == "outputs" and predictions.whole is None:
            return replace(predictions, whole=self.whole_outputs(predictions.phi))
        if metric.on not in ("outputs", "model") and predictions.read is None and self.model.reader is not None:
            return replace(predictions, read=self.search_outputs(predictions.phi))
        return predictions

    def resampled_costs(self, phi: Tensor, resamples: int, metric: Metric | None = None) -> Tensor | None:
        """Costs of one phi (dim,) on resamples, the same ones every time; None of a metric that is not resampled."""
        metric = self.metric if metric is None else metric
        if not metric.resampled:
            return None
        predictions = self.predictions_for(Predictions(phi[None]), metric)
        return resampled_costs(
            metric,
            predictions.for_metric(metric)[0],
            self.search.truth,
            rows=len(self.search),
            resamples=resamples,
            at_once=self.members_at_once,
        )

    def noise_guess(self) -> float:
        """The most that a mean of numbers in [0, 1] can vary."""
        return 0.5 / math.sqrt(len(self.search))

    def doubt_guess(self, phi: Tensor, other: Tensor) -> float:
        """By how differently the two predict."""
        probe = self.probe()
        one, two = probe.responses(probe.shown(torch.stack([phi, other]), rows=1000))
        return float((one - two).norm()) / math.sqrt(len(self.search))


def vectorises(function: Loss, outputs: Tensor, targets: Tensor) -> bool:
    """Whether a loss can be computed for all members at once, and not member by member inside torch.

    Example:
        >>> from torch.nn.functional import mse_loss
        >>> two = torch.zeros(2, 3)
        >>> vectorises(mse_loss, two, two), vectorises(lambda one, _: one.sum() if one[0] > 0 else one[1], two, two)
        (True, False)
    """
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("error", UserWarning)
        try:
            torch.vmap(function)(outputs, targets)
        except Exception:  # what is wrong with the loss itself comes again when it is called
            return False
    return True
