"""The window on an adapted model: its outputs on the metric's inputs, and gradients of its loss."""

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from metricopt.adapters.device import on_model
from metricopt.data.dataset import Data, Examples
from metricopt.data.sampling import Kind, PerClass, Sampling, index_stream
from metricopt.task.fisher import fisher_features
from metricopt.task.group_gradients import loss_bands, loss_gradient, mean_loss
from metricopt.task.input_statistics import has_statistics, with_statistics_of
from metricopt.task.predictions import Predictions
from metricopt.task.probe import Probe
from metricopt.task.supervised import SupervisedTask
from metricopt.task.views import RAW, View, views_of

# What is shown of one phi has about so many numbers, from so many rows at least.
_FEATURES, _LEAST_ROWS = 20_000, 100
# Of networks that are slow: passes' worth of rows for all gradients of groups, rows of a mini-batch at least, and how
# many times a pass forward one forward and backward takes.
_PASSES, _LEAST_BATCH, _BACKWARD = 4, 8, 3
_STATISTICS_ROWS = 256  # a batch whose means and variances are taken
_PAIR_BATCHES = 6


class SupervisedProbe(Probe):
    """What can be seen of a supervised task without asking its metric.

    Where no tensor can be read from the network's output, phi itself is all there is to see.

    Example:
        >>> from metricopt.adapters import OutputAffine, adapt
        >>> from metricopt.metrics import mcr
        >>> data = Examples(torch.randn(40, 3, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 2)
        >>> task = SupervisedTask(adapt(torch.nn.Linear(3, 2), OutputAffine()), metric=mcr(), train=data, search=data)
        >>> task.probe().shown(torch.zeros(5, task.dim), rows=20).shape
        torch.Size([5, 20, 2])
    """

    def __init__(self, task: SupervisedTask) -> None:
        super().__init__(task)
        self._task = task

    @cached_property
    def _readable(self) -> bool:
        reader = self._task.model.reader
        if reader is None:
            return False
        example = on_model(self._task.model, self._task.search.inputs_at(slice(0, 1)))
        with torch.no_grad():
            first = self._task.model.outputs(torch.zeros(1, self.dim), example)
        # Of dense outputs, as of segmentation, one row has many positions: no view knows their axis of classes.
        raw = self._task.simple and self._task.metric.on in ("logits", "embeddings", "values")
        return first.dim() >= 2 and first.shape[1] == 1 and (raw or first.dim() <= 3)

    @property
    def views(self) -> tuple[View, ...]:
        """Ways in which the metric may look at the outputs, by what it is given of them."""
        return views_of(self._task.metric.on) if self._readable else (RAW,)

    def shown(self, phi: Tensor, *, rows: int) -> Tensor:
        """Outputs on evenly spread rows of the search data, (population, n, columns); fewer rows of many columns."""
        if not self._readable:
            return super().shown(phi, rows=rows)
        outputs = self._task.search_outputs(phi, every=self._every(rows)).to(phi)
        return outputs.reshape(*outputs.shape[:2], -1)

    def rows_shown(self, *, rows: int) -> Tensor:
        """Numbers of the rows of the search data that `shown` shows, (n,)."""
        return torch.arange(0, len(self._task.search), self._every(rows))

    @property
    def shares_predictions(self) -> bool:
        """Whether the metric is given tensors."""
        return self._readable and self._task.metric.on not in ("outputs", "model")

    def shown_of(self, predictions: Predictions, *, rows: int) -> Tensor:
        """The same rows of outputs that the metric was given."""
        assert predictions.read is not None
        outputs = predictions.read[:, :: self._every(rows)].to(predictions.phi).contiguous()  # not a part of all rows
        return outputs.reshape(*outputs.shape[:2], -1)

    def shown_by_inputs(self, *, rows: int) -> Tensor | None:
        """The outputs shown with BatchNorm statistics of the same rows; None of a network without such layers."""
        task, model = self._task, self._task.model
        if not self._readable or model.reader is None or not has_statistics(model.net):
            return None
        index = torch.arange(0, len(task.search), self._every(rows))
        if len(index) < _LEAST_ROWS:
            return None
        # Of about the same size, so that each batch tells as much as the others.
        parts = index.tensor_split(math.ceil(len(index) / _STATISTICS_ROWS))
        batches = [on_model(model, task.search.batch(some, seed=0).inputs) for some in parts]
        net = with_statistics_of(model.net, batches, call=model.called)
        with torch.no_grad():
            outputs = torch.cat([model.reader(model.called(net, inputs)) for inputs in batches]).cpu()
        return outputs.to(torch.float32).reshape(1, len(outputs), -1)

    def _every(self, rows: int) -> int:
        rows = min(rows, max(_LEAST_ROWS, _FEATURES // max(1, self._columns)))
        return math.ceil(len(self._task.search) / rows)

    @cached_property
    def _columns(self) -> int:
        first = self._task.search_outputs(torch.zeros(1, self.dim), every=len(self._task.search))
        return first.numel() // first.shape[1]

    def responses(self, outputs: Tensor) -> Tensor:
        """Outputs scaled so that squared differences are Fisher distances between probabilities.

        A metric that is shown raw outputs may well see what no probability tells, such as a shift of all logits of a
        row: for it they are only divided by their spread.
        """
        if not self._readable:
            return super().responses(outputs)
        raw = self._task.metric.on in ("embeddings", "logits") and outputs.shape[-1] > 2
        return fisher_features(outputs, raw=raw)

    @property
    def shift_coordinates(self) -> Tensor:
        """Coordinates of phi that shift one output each."""
        where = self._task.model.shift_coordinates
        return torch.zeros(0, dtype=torch.long) if where is None else torch.arange(self.dim)[where]

    def directions(self, phi: Tensor, *, rows: int = 1024, bands: int = 3) -> Tensor:
        """Loss gradients of the examples of each class and, within it, of low, middle and high loss: (groups, dim).

        They span the trade-offs between kinds of examples that metrics are about: the guidance of Eq. 3 with a
        basis that fits the metric (docs/recipe.md). Of data that are no single tensors, none.
        """
        task = self._task
        data = task.search if task.labels_visible else task.train
        if not task.simple or not isinstance(data, Examples):
            return super().directions(phi)
        if isinstance(task.sampling, PerClass):
            return torch.stack([self._gradient(phi, (data, rows)) for rows in self._pair_batches(data, task.sampling)])
        # Evenly spread rows: the first ones of data sorted by class would be of one class.
        rows = rows if task.most_rows is None else min(rows, _PASSES * task.most_rows)
        index = torch.arange(0, len(data), math.ceil(len(data) / rows), device=data.targets.device)
        loss = task.loss_rule.function
        group = loss_bands(task.cache, loss, phi, (data, index), bands=bands, at_once=task.rows_at_once)
        groups = [(data, index[group == g]) for g in torch.unique(group).tolist()]
        # Group by group, so that each row goes backward once and not once for every group.
        return torch.stack([self._gradient(phi, rows) for rows in groups])

    def _pair_batches(self, data: Data, sampling: PerClass) -> Tensor:
        """A few batches of rows with pairs of a class, the same every time, (batches, rows)."""
        draw = torch.Generator().manual_seed(0)
        return next(
            index_stream(data, _PAIR_BATCHES, batch_size=self._task.batch_size, sampling=sampling, generator=draw)
        )

    def _gradient(self, phi: Tensor, rows: tuple[Examples, Tensor]) -> Tensor:
        self._task.beat()
        return loss_gradient(self._task.cache, self._task.loss_rule.function, phi, rows)

    def start_batches(self, generator: torch.Generator) -> tuple[int, Iterator[Any]]:
        """Plain and class-balanced batches of the training data and, where labels are visible, of the search data.

        Of the search data every second row is left out, for `sound_starts`.
        """
        task = self._task
        sets = [(task.train, 1), (task.search, 2)] if task.labels_visible else [(task.train, 1)]
        kinds: list[Kind] = [(data, sampling, every) for data, every in sets for sampling in self._samplings]
        most = None if task.most_rows is None else max(_LEAST_BATCH, task.most_rows // (_BACKWARD * len(kinds)))
        return len(kinds), task.mixed_batches(kinds, 1, generator, most=most)

    @property
    def _samplings(self) -> list[Sampling]:
        if isinstance(self._task.sampling, PerClass):  # a loss about pairs, of which other batches have few
            return [self._task.sampling]
        sets = [self._task.train, self._task.search] if self._task.labels_visible else [self._task.train]
        return ["plain", "balanced"] if all(data.has_classes for data in sets) else ["plain"]

    @property
    def plain_starts(self) -> int:
        """As many as there are ways to draw from the training data; the others have seen labels of the search data."""
        return len(self._samplings)

    def sound_starts(self, paths: Tensor) -> Tensor:
        """Points on paths (points, kinds, dim) of loss finetuning that are worth a query, (at most kinds, dim).

        Those finetuned on the search data's own labels look good there whatever they are worth, so the point taken is
        where the loss on the rows left out is lowest, by class where it was finetuned by class; none if that is 0.
        """
        task = self._task
        if not task.labels_visible:
            return paths[-1]
        if not task.simple:
            return self._sound_one_by_one(paths)
        first = len(self._samplings)
        tried = torch.cat([torch.zeros(1, first, self.dim), paths[:, first:]])
        outputs = task.search_outputs(tried.flatten(0, 1), every=1)[:, 1::2].unflatten(0, tried.shape[:2])
        targets = on_model(task.model, task.search.truth[0][1::2])
        outputs = on_model(task.model, outputs)
        found = []
        for kind, sampling in enumerate(self._samplings):
            if isinstance(sampling, PerClass):
                batches = self._pair_batches(Examples(targets, targets), sampling)
                losses = [float(task.losses(each[batches], targets[batches]).mean()) for each in outputs[:, kind]]
            else:
                function, by_class = task.loss_rule.function, sampling == "balanced"
                losses = [mean_loss(function, each, targets, by_class=by_class) for each in outputs[:, kind]]
            best = int(torch.tensor(losses).nan_to_num(torch.inf).argmin())
            found += [tried[best, kind]] if best > 0 else []
        return torch.stack([*paths[-1, :first], *found])

    def _sound_one_by_one(self, paths: Tensor) -> Tensor:
        """The same for data of any structure, by the plain loss on a few hundred of the rows left out."""
        task = self._task
        first = len(self._samplings)
        left_out = torch.arange(1, len(task.search), 2)
        batches = [task.search.batch(some, seed=0) for some in left_out[:512].split(task.batch_size)]
        found = []
        for kind in range(first, paths.shape[1]):
            tried = torch.cat([torch.zeros(1, self.dim), paths[:, kind]])
            with torch.no_grad():
                losses = torch.stack([task.loss(tried, [batch] * len(tried)) for batch in batches]).mean(0)
            best = int(losses.nan_to_num(torch.inf).argmin())
            found += [tried[best]] if best > 0 else []
        return torch.stack([*paths[-1, :first], *found])
