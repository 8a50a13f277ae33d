"""A network cut in two: what no phi can change, and what is left to do for each phi."""

from typing import final

import torch
from torch import Tensor, fx, nn

from metricopt.adapters.freezing import packed
from metricopt.adapters.graph.modulated import rest_of
from metricopt.adapters.graph.trace import CutError, Trace, drop_unread, trace
from metricopt.adapters.model import AdaptedModel
from metricopt.adapters.population import Population, check_population
from metricopt.core.tree import Tree, each, row_count, tensors_of


class Crossing(tuple[Tensor, ...]):
    """What the part behind the cut needs to know of some rows, each (n, ...); no inputs, which may be a tuple too."""

    __slots__ = ()


# Multiply-adds from which on a member is computed alone: measured with ResNet-32 and MLPs.
_HEAVY = 2**27


@final
class Cut:
    """An adapted model as two functions: `before(inputs)` once, `outputs(phi, crossing)` for each phi.

    Only the network as it is now is cut: weights that change afterwards are not seen.

    Args:
        model: The adapted model.
        probe: A few rows of inputs.

    Attributes:
        saved: Multiply-adds for one row that `outputs` does not need any more.

    Raises:
        CutError: The network cannot be traced, or its parts exchange something else than one row an example.

    Example:
        >>> from metricopt.adapters import FiLM, adapt
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
        >>> cut = Cut(adapt(net, FiLM(dim=16)), torch.ones(2, 4))
        >>> crossing = cut.before(torch.ones(5, 4))
        >>> [tuple(tensor.shape) for tensor in crossing]
        [(5, 8)]
        >>> cut.outputs(torch.zeros(7, 16), crossing).shape
        torch.Size([7, 5, 3])
    """

    def __init__(self, model: AdaptedModel, probe: Tree) -> None:
        found = trace(model, probe)
        self.model = model
        self.saved, self._left = found.saved, found.left
        self._convolves = any(
            node.op == "call_module" and isinstance(found.root.get_submodule(str(node.target)), nn.Conv2d)
            for node in found.rest
        )
        self._before = fx.GraphModule(found.root, _beforehand(found)).eval()
        self._rest = rest_of(model, found)
        self._several = Population(self._read, vectorises=not packed(model.net))
        _check_rows(self.before(probe), row_count(probe) or 0)

    def before(self, inputs: Tree) -> Crossing:
        """What the rest needs to know of the inputs (n, ...), each (n, ...)."""
        with torch.no_grad(), self.model.ordinary_attention():
            return Crossing(self._laid_out(value) for value in self._before(*tensors_of(each(Tensor.clone, inputs))))

    def _laid_out(self, value: Tensor) -> Tensor:
        # With the channels of a pixel side by side convolutions on a processor need no copies in another order.
        if self._convolves and isinstance(value, Tensor) and value.dim() == 4 and value.device.type == "cpu":
            return value.contiguous(memory_format=torch.channels_last)
        return value

    def outputs(self, phi: Tensor, crossing: Crossing, *, paired: bool = False) -> Tensor:
        """As `AdaptedModel.outputs`, from what crosses the cut in place of the inputs."""
        check_population(phi, crossing, dim=self.model.dim, paired=paired)
        rows = crossing[0].shape[1] if paired else len(crossing[0])
        heavy = rows * self._left > _HEAVY and self.model.phi.device.type == "cpu"
        # As a plain tuple: vmap looks into no other.
        return self._several(phi.to(self.model.phi), tuple(crossing), paired=paired, heavy=heavy)

    def output(self, phi: Tensor, crossing: Crossing) -> Tree:
        """As `AdaptedModel.output`, at one phi (dim,), from what crosses the cut."""
        return self._rest(phi.to(self.model.phi), crossing)

    def _read(self, phi: Tensor, crossing: Tree) -> Tensor:
        return self.model.fine(self.model.read(self._rest(phi, crossing)))


def _beforehand(found: Trace) -> fx.Graph:
    graph = fx.Graph()
    known: dict[fx.Node, fx.Node] = {}
    for node in found.graph.nodes:
        if node not in found.rest:
            known[node] = graph.node_copy(node, known.__getitem__)
    graph.output(tuple(known[node] for node in found.crossing))
    drop_unread(graph)
    return graph


def _check_rows(crossing: Crossing, rows: int) -> None:
    for value in crossing:
        if not isinstance(value, Tensor) or value.ndim == 0 or len(value) != rows:
            found = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise CutError(f"a value without one row an example ({found} for {rows} rows) is needed behind the cut")
