"""The trace of a network, its nodes sorted by whether they depend on phi."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn

from metricopt.adapters.layers import CONVOLUTION, LINEAR
from metricopt.adapters.model import AdaptedModel
from metricopt.core.tree import Tree, described, each, row_count, tensors_of


class CutError(ValueError):
    """Why a network could not be cut in two."""


@dataclass(frozen=True)
class Trace:
    """Nodes of a traced network by what they depend on.

    Attributes:
        root: The traced module; its `net` is the network.
        graph: All nodes.
        rest: Nodes that have to be computed for each phi.
        changed: Nodes whose value depends on phi: the rest, and layers that are modulated but computed beforehand.
        constant: Nodes that depend on nothing at all.
        crossing: Nodes computed beforehand whose values the rest needs, in the order of the trace.
        dimensions: Number of dimensions of each node's value, where it is a tensor.
        saved: Multiply-adds of linear layers and convolutions that one row does not need again once it has crossed.
        left: Those that it needs for each phi.
    """

    root: nn.Module
    graph: fx.Graph
    rest: set[fx.Node]
    changed: set[fx.Node]
    constant: set[fx.Node]
    crossing: list[fx.Node]
    dimensions: dict[str, int]
    saved: int
    left: int


def trace(model: AdaptedModel, probe: Tree) -> Trace:
    """The network of `model` traced and sorted, or a `CutError`.

    Example:
        >>> from metricopt.adapters import FiLM, adapt
        >>> model = adapt(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU()), FiLM(dim=16))
        >>> found = trace(model, torch.ones(2, 4))
        >>> [node.target for node in found.crossing], [node.op for node in found.graph.nodes if node in found.rest]
        (['net.1'], ['call_module', 'output'])
    """
    root = _rooted(model, probe)
    rows = row_count(probe) or 1
    graph = _traced(root, model)
    layers = {inside_root(name) for name in model.layers}
    reading = {inside_root(name) for part, _ in model.parts() if part.reads_inputs for name in part.layers}
    rest, changed, constant = set[fx.Node](), set[fx.Node](), set[fx.Node]()
    for node in graph.nodes:
        target = str(node.target) if node.op == "call_module" else ""
        hidden = bool(target) and any(layer.startswith(f"{target}.") for layer in layers)
        if node.op == "output" or hidden or target in reading or not changed.isdisjoint(node.all_input_nodes):
            rest.add(node)
        if node in rest or target in layers:
            changed.add(node)
        elif node.op == "get_attr" or (node.op != "placeholder" and constant.issuperset(node.all_input_nodes)):
            constant.add(node)
    needed = {source for node in rest for source in node.all_input_nodes} - rest - constant
    crossing = [node for node in graph.nodes if node in needed]
    seen = _watched(model, root, graph, probe)
    total = sum(seen.work.values()) // rows
    left = sum(seen.work.get(node.name, 0) for node in rest) // rows
    return Trace(root, graph, rest, changed, constant, crossing, seen.dimensions, saved=total - left, left=left)


def inside_root(name: str) -> str:
    """Name of a layer of the network in the traced module.

    Example:
        >>> inside_root("hidden.0"), inside_root("")
        ('net.hidden.0', 'net')
    """
    return f"net.{name}" if name else "net"


def drop_unread(graph: fx.Graph) -> None:
    """Erase the nodes whose values nobody reads.

    Example:
        >>> graph = fx.Graph()
        >>> x = graph.placeholder("x")
        >>> _ = graph.call_function(torch.relu, (x,))
        >>> _ = graph.output(x)
        >>> drop_unread(graph)
        >>> [node.op for node in graph.nodes]
        ['placeholder', 'output']
    """
    for node in reversed(list(graph.nodes)):
        if not node.users and node.op not in ("placeholder", "output"):
            graph.erase_node(node)


class _Root(nn.Module):
    """The network as a function of the tensors of its inputs, so that a single layer is traced like any other.

    torch.fx wants to know how many there are: one, or one of the subclasses below.
    """

    def __init__(self, model: AdaptedModel, like: Tree) -> None:
        super().__init__()
        self.net = model.net
        self._call = model.call
        self._like = like

    def forward(self, x: Tensor) -> Any:
        return self._called(x)

    def _called(self, *tensors: Tensor) -> Any:
        given = iter(tensors)
        return self._call(self.net, each(lambda _: next(given), self._like))


class _RootOfTwo(_Root):
    def forward(self, x: Tensor, y: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._called(x, y)


class _RootOfThree(_Root):
    def forward(self, x: Tensor, y: Tensor, z: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._called(x, y, z)


_ROOTS = {1: _Root, 2: _RootOfTwo, 3: _RootOfThree}


def _rooted(model: AdaptedModel, probe: Tree) -> _Root:
    count = len(tensors_of(probe))
    if count not in _ROOTS or row_count(probe) is None or any(isinstance(part, list) for part in _parts(probe)):
        raise CutError(f"its inputs are {described(probe)}: expected one to three tensors with one row an example")
    model.net.eval()
    return _ROOTS[count](model, each(lambda tensor: tensor[:0], probe))


def _parts(tree: Tree) -> list[Any]:
    if isinstance(tree, Mapping):
        return [tree, *(inner for part in tree.values() for inner in _parts(part))]
    if isinstance(tree, tuple):
        return [tree, *(inner for part in tree for inner in _parts(part))]
    return [tree]


class _Tracer(fx.Tracer):
    def __init__(self, layers: set[str]) -> None:
        super().__init__()
        self._layers = layers

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return module_qualified_name in self._layers or super().is_leaf_module(m, module_qualified_name)


class _Watched(fx.Interpreter):
    """Runs a graph and notes how many dimensions each tensor has, and what it takes to compute it."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.dimensions: dict[str, int] = {}
        self.work: dict[str, int] = {}

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if isinstance(value, Tensor):
            self.dimensions[n.name] = value.ndim
            layer = self.module.get_submodule(str(n.target)) if n.op == "call_module" else None
            if isinstance(layer, LINEAR + CONVOLUTION):
                self.work[n.name] = value.numel() * layer._parameters["weight"][0].numel()  # pyright: ignore[reportOptionalSubscript]
        return value


def _traced(root: _Root, model: AdaptedModel) -> fx.Graph:
    for name, module in model.net.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.running_mean is None:
            raise CutError(f"{name!r} normalises by the batch, so that rows influence each other")
    try:
        return _Tracer({inside_root(name) for name in model.layers}).trace(root)
    # Whatever a network's code may do with a tensor that has no values.
    except Exception as error:
        raise CutError(f"torch.fx cannot trace it: {_first_line(error)}") from error


def _watched(model: AdaptedModel, root: nn.Module, graph: fx.Graph, probe: Tree) -> _Watched:
    seen = _Watched(fx.GraphModule(root, graph))
    try:
        with torch.no_grad(), model.ordinary_attention():
            seen.run(*tensors_of(each(Tensor.clone, probe)))
    except Exception as error:
        raise CutError(f"its trace does not run: {_first_line(error)}") from error
    return seen


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
