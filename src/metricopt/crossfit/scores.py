"""Class scores of a detector, shifted by asking the metric: on top of the chosen weights, or of the original ones."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from metricopt.adapters import LayerAffine, adapt
from metricopt.adapters.detector import scores_of, toward_boxes
from metricopt.adapters.graph.cache import PrefixCache
from metricopt.core.tree import Tree, joined, rows
from metricopt.crossfit.asking import Asking
from metricopt.crossfit.biases import BiasSearch
from metricopt.task.out_of_fold import OutOfFoldTask
from metricopt.task.predictions import Predictions

BACKGROUND = (1.5, 3.0)
"""By how much a detector's background score is lowered: boxes below its threshold would count in average precision.
By 1, 2 and 3 gave .894, .895 and .899 where a finetuned one had .891, on the same images as `DETECTOR_RATES`."""

LEAST = 6  # queries that are worth another choice of weights
IMAGES_A_SCORE = 10
"""Fewer than that, and scores of single classes are left as they are: each would be fitted to the luck of a few."""


@dataclass(frozen=True, eq=False)
class Tuned:
    """A choice of weights and scores.

    Attributes:
        phi: Both, (dim,).
        cost: On rows that none of its networks has seen.
        shown: What they find there; None if nothing was asked about it here.
    """

    phi: Tensor
    cost: float
    shown: Tree = None


def tune_scores(asking: Asking, starts: Sequence[Tuned]) -> Tuned:
    """The best shift of class scores for the best of some choices of weights, with the queries that are left.

    Args:
        asking: Asks the metric.
        starts: Choices of weights, the best first; the better one with less background gets all other queries.
    """
    if asking.task.model.shift_coordinates is None:  # scores come from several layers
        return starts[0]
    tried: list[_Scores] = []
    for start in starts[: max(1, asking.left // LEAST)]:
        tried.append(_Scores(asking, start))
        tried[-1].less_background()
    best = min(tried, key=lambda scores: scores.best.cost)
    best.class_by_class()
    return best.best


class _Scores:
    """Shifts of class scores at one choice of weights."""

    def __init__(self, asking: Asking, start: Tuned) -> None:
        self._asking, self._start, self.best = asking, start, start
        shifts = asking.task.model.shift_coordinates
        assert shifts is not None
        self._shifts = shifts
        self._folds = FoldFindings(asking.task, start.phi) if asking.task.metric.on == "outputs" else None

    @property
    def _size(self) -> int:
        return self._shifts.stop - self._shifts.start

    def less_background(self) -> None:
        """One number for all images."""
        lower = toward_boxes(self._asking.task.model.net, self._size)
        for shift in BACKGROUND:
            self._ask((shift * lower)[None], stage="less background")

    def class_by_class(self) -> None:
        """Each score up and down in turn, from the best so far, if there are images enough."""
        if self._size * IMAGES_A_SCORE > len(self._asking.task.search):
            return
        first = [self.best.cost]  # where the search starts is known

        def ask(biases: Tensor) -> Tensor:
            return torch.tensor([first.pop()]) if first else self._ask(biases, stage="class scores")

        search = BiasSearch(ask, torch.zeros(0), False, torch.ones(self._size))
        search(self.best.phi[self._shifts], calls=self._asking.left + 1)

    def _ask(self, biases: Tensor, *, stage: str) -> Tensor:
        """Costs of shifts (k, scores), of as many as may be asked about; infinite where the metric failed."""
        costs = []
        for bias in biases:
            if self._asking.left < 1:
                break
            phi = self._start.phi.clone()
            phi[self._shifts] = bias
            shown = self._shown(phi, bias)
            (cost,) = self._asking.oracle.observe(phi[None], stage=stage, shown=shown).nan_to_num(nan=math.inf).tolist()
            costs.append(cost)
            if cost < self.best.cost:
                self.best = Tuned(phi, cost, None if shown.whole is None else shown.whole[0])
        return torch.tensor(costs)

    def _shown(self, phi: Tensor, bias: Tensor) -> Predictions:
        if self._folds is None:
            return self._asking.task.predictions(phi[None])
        return Predictions(phi[None], whole=[self._folds.found(bias)])


class FoldFindings:
    """What the networks of the folds find at one choice of weights, each in images it has not seen.

    Nothing before the scores depends on their shift, so it is computed once an image: a question is then less than a
    tenth of a pass.
    """

    def __init__(self, task: OutOfFoldTask, phi: Tensor) -> None:
        self._parts, places, networks = [], [], task.networks(phi)
        for index, net in networks:
            data = task.search.rows(index)
            probe = data.inputs_at(slice(0, 1))
            model = adapt(net, LayerAffine(layers=scores_of(net)), example=probe, call=task.model.call)
            memory = task.cache.memory // len(networks)
            self._parts.append((PrefixCache(model, memory=memory, probe=probe, beat=task.cache.beat), data))
            places.append(index)
        self._order = torch.cat(places).argsort()

    def found(self, bias: Tensor) -> Tree:
        """One dict an image, in the order of the rows, with scores shifted by (scores,)."""
        phi = torch.cat([torch.zeros_like(bias), bias])[None]  # scales of the scores stay as they are
        return rows(joined([cache.whole_outputs(phi, data)[0] for cache, data in self._parts]), self._order)
