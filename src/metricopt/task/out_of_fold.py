"""A supervised task in which every row of the search data is predicted by a network that has not learnt from it."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from metricopt.adapters import AdaptedModel
from metricopt.adapters.device import on_model
from metricopt.adapters.output_affine import OutputModulation
from metricopt.adapters.weight_directions import State, WeightModulation, changes
from metricopt.core.tree import Tree, each, joined, opened, rows
from metricopt.task.supervised import SupervisedTask

_REMEMBERED = 4  # choices of weights whose outputs are kept


class OutOfFoldTask(SupervisedTask):
    """The task of an adapted model with weight directions; until `take_folds` all rows are predicted by the model.

    Attributes:
        fold_of: Fold of each row of the search data, (n,); None before there are any.

    Example:
        >>> from torch import nn
        >>> from metricopt.adapters import WeightDirections, adapt
        >>> from metricopt.data.dataset import Examples
        >>> from metricopt.metrics import mcr
        >>> data = Examples(torch.ones(4, 2), torch.tensor([0, 1, 0, 1]))
        >>> net = nn.Linear(2, 1)
        >>> task = OutOfFoldTask(adapt(net, WeightDirections()), metric=mcr(), train=data, search=data)
        >>> two = [{"bias": net.bias + shift, "weight": net.weight} for shift in (100, -100)]
        >>> task.take_folds(torch.tensor([0, 0, 1, 1]), [[one] for one in two])
        >>> (task.search_outputs(torch.ones(1, 1)) > 0)[0].int().flatten().tolist()
        [1, 1, 0, 0]
    """

    def __init__(self, model: AdaptedModel, **settings: Any) -> None:
        super().__init__(model, **settings)
        self.fold_of: Tensor | None = None
        self._models: list[AdaptedModel] = []
        self._known: dict[tuple[bytes, bool], Tree] = {}

    def take_folds(self, fold_of: Tensor, states: Sequence[Sequence[State]]) -> None:
        """Predict the rows of each fold by its own networks, whose weights are given one a direction."""
        self.fold_of = fold_of
        self._known.clear()
        self._models = [self.model.twin() for _ in states]
        for model, own in zip(self._models, states, strict=True):
            set_weights(model, own)

    def search_outputs(self, phi: Tensor, *, every: int = 1) -> Tensor:
        """Tensors read from out-of-fold outputs, (population, n, ...)."""
        if self.fold_of is None:
            return super().search_outputs(phi, every=every)
        found = torch.stack([self.finished(member, self.base(member)) for member in phi])
        return found[:, ::every]

    def whole_outputs(self, phi: Tensor) -> list[Tree]:
        """For each member all that the networks of the folds give, one row an example, in the order of the rows."""
        if self.fold_of is None:
            return super().whole_outputs(phi)
        return [self._remembered(member, whole=True) for member in phi]

    def base(self, phi: Tensor) -> Tensor:
        """Out-of-fold outputs at one phi (dim,), without what phi does to outputs: (n, ...)."""
        if self.fold_of is None:
            return super().search_outputs(self._without_shift(phi)[None])[0]
        found = self._remembered(self._without_shift(phi), whole=False)
        assert isinstance(found, Tensor)
        return found

    def finished(self, phi: Tensor, outputs: Tensor) -> Tensor:
        """Outputs (n, ...) with what one phi (dim,) does to outputs."""
        for part, own in self.model.parts():
            if part.acts_on_output and bool(phi[own].any()):
                outputs = part.on_output(phi[own].to(outputs), outputs)
        return outputs

    @property
    def shifts(self) -> slice | None:
        """Coordinates of phi that shift outputs, where the outputs can be read."""
        return None if self.model.reader is None else self.model.shift_coordinates

    def _without_shift(self, phi: Tensor) -> Tensor:
        phi = phi.clone()
        for part, own in self.model.parts():
            if isinstance(part, OutputModulation):
                phi[own] = 0.0
        return phi

    def _remembered(self, phi: Tensor, *, whole: bool) -> Tree:
        key = (phi.numpy().tobytes(), whole)
        if key not in self._known:
            if len(self._known) >= _REMEMBERED:
                del self._known[next(iter(self._known))]
            self._known[key] = self._computed(phi, whole=whole)
        return self._known[key]

    def _computed(self, phi: Tensor, *, whole: bool) -> Tree:
        assert self.fold_of is not None
        parts, places = [], []
        with torch.no_grad():
            for fold, model in enumerate(self._models):
                for some in (self.fold_of == fold).nonzero()[:, 0].split(self.search.batch_size):
                    output = self._output(model, phi, some, whole=whole)
                    parts.append(each(lambda tensor: tensor.detach().cpu(), output))
                    places.append(some)
        return rows(joined(parts), torch.cat(places).argsort())

    def _output(self, model: AdaptedModel, phi: Tensor, some: Tensor, *, whole: bool) -> Tree:
        kept = self.cache.remembered(self.search, some)
        if kept is not None and whole:
            return opened(self.cache.output(phi, kept, model=model))
        inputs = on_model(model, self.search.batch(some, seed=int(some[0])).inputs)
        return opened(model.output(phi, inputs)) if whole else model.outputs(phi[None], inputs)[0]


def set_weights(model: AdaptedModel, states: Sequence[State]) -> None:
    """Make the directions of a model lead to the given weights, one state a direction; those left over lead nowhere."""
    (part,) = (part for part, _ in model.parts() if isinstance(part, WeightModulation))
    for direction in range(part.dim):
        part.set_changes(direction, changes(model.net, states[direction]) if direction < len(states) else {})
