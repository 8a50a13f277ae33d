"""What is left to do for each phi, with as few passes over the activations as possible.

In eval mode a BatchNorm is one scale and shift a channel, like FiLM and dynamic biases: in a row they become one, and
a BatchNorm behind a linear layer or a convolution becomes part of its weights.
"""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast, final

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from metricopt.adapters.channels import Affine, ChannelModulation, fold_affine
from metricopt.adapters.graph.trace import Trace, drop_unread, inside_root
from metricopt.adapters.layers import BATCH_NORM, CONVOLUTION, LINEAR, channels_of
from metricopt.adapters.model import AdaptedModel
from metricopt.adapters.spec import Modulation
from metricopt.core.tree import Tree

_DROPOUT = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.Identity)


class Linked(NamedTuple):
    """One link of a chain of scalings: that of a modulated layer by one part of the adapter."""

    part: int
    layer: str


class Step(NamedTuple):
    """h * scale + shift, each (channels,)."""

    scale: Tensor
    shift: Tensor


class Numbers(NamedTuple):
    """What one phi does: the scaling of each chain, and by layer what becomes of its inputs and its output."""

    chains: list[Step]
    hooks: dict[str, list[Callable[[tuple[Any, ...], Tensor], Tensor]]]


@final
class Rest:
    """Outputs at one phi (dim,) from what crosses the cut."""

    def __init__(self, model: AdaptedModel, built: "_Builder") -> None:
        self._model = model
        self._module = built.module()
        self._chains = built.chains
        self._hooked = built.hooked
        self._by_hooks = built.by_hooks

    def __call__(self, phi: Tensor, crossing: Tree) -> Tree:
        """What the network gives, whatever its structure."""
        numbers = self._numbers(phi)
        with self._model.modulating(phi) if self._by_hooks else self._model.ordinary_attention():
            output = self._module(numbers, *cast(tuple[Tensor, ...], crossing))
        return self._model.finished(phi, output)

    def _numbers(self, phi: Tensor) -> Numbers:
        affines: list[dict[str, Affine]] = []
        hooks: dict[str, list[Callable[[tuple[Any, ...], Tensor], Tensor]]] = {}
        for part, own in self._model.parts():
            affines.append(part.affines(phi[own]) if isinstance(part, ChannelModulation) else {})
            if not self._hooked.isdisjoint(part.layers):
                for name, hook in part.hooks(phi[own]).items():
                    hooks.setdefault(name, []).append(partial(hook, self._model.net.get_submodule(name)))
        return Numbers([_joined(chain, affines) for chain in self._chains], hooks)


def rest_of(model: AdaptedModel, found: Trace) -> Rest:
    """The part of a traced network that depends on phi.

    Example:
        >>> from metricopt.adapters import FiLM, adapt
        >>> from metricopt.adapters.graph.trace import trace
        >>> model = adapt(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU()), FiLM(dim=16))
        >>> rest = rest_of(model, trace(model, torch.ones(2, 4)))
        >>> rest(torch.zeros(16), (torch.ones(5, 8),)).shape
        torch.Size([5, 8])
    """
    return Rest(model, _Builder(model, found))


class _Builder:
    """Writes the graph of the rest, node by node."""

    def __init__(self, model: AdaptedModel, found: Trace) -> None:
        self.chains: list[list[Linked | Step]] = []
        self.hooked: set[str] = set()
        self._parts: list[Modulation] = [part for part, _ in model.parts()]
        self._names = {inside_root(name): name for name in model.layers}
        self._found = found
        self._modules: dict[str, Any] = {}
        self._graph = fx.Graph()
        self._known: dict[fx.Node, fx.Node] = {}
        # A layer inside a module that is not traced can only be reached by its hook.
        self.by_hooks = any(self._is_opaque(node) for node in found.rest)
        self._numbers = self._graph.placeholder("numbers")
        places = {node: self._graph.placeholder(f"crossing_{i}") for i, node in enumerate(found.crossing)}
        for node in found.graph.nodes:
            if node in places:
                self._known[node] = self._modulated(node, places[node], [])
            elif node in found.constant:
                self._copy(node)
            elif node in found.rest:
                self._known[node] = self._written(node)
        drop_unread(self._graph)
        _overwrite_in_activations(self._graph, self._modules)

    def module(self) -> fx.GraphModule:
        """The graph with the modules it calls."""
        return fx.GraphModule(self._modules, self._graph).eval()

    def _is_opaque(self, node: fx.Node) -> bool:
        return node.op == "call_module" and any(name.startswith(f"{node.target}.") for name in self._names)

    def _written(self, node: fx.Node) -> fx.Node:
        if node.op != "call_module" or self.by_hooks:
            return self._copy(node)
        layer = self._found.root.get_submodule(str(node.target))
        first = cast(fx.Node, node.args[0]) if node.args else None
        if isinstance(layer, _DROPOUT) and first is not None:
            return self._known[first]
        if isinstance(layer, BATCH_NORM) and first is not None and not self._readers(node):
            return self._normalised(node, first, layer)
        return self._modulated(node, self._copy(node), [])

    def _normalised(self, node: fx.Node, first: fx.Node, layer: nn.Module) -> fx.Node:
        step = _eval_step(layer)
        taken = self._taken_in(first, step)
        return self._modulated(node, self._known[first], [] if taken else [step])

    def _taken_in(self, first: fx.Node, step: Step) -> bool:
        """Whether a scaling could be written into the weights of the layer before it."""
        before = self._known[first]
        layer = self._modules.get(str(before.target)) if before.op == "call_module" else None
        flat = type(layer) in LINEAR and self._found.dimensions[first.name] == 2
        if not (flat or type(layer) in CONVOLUTION) or len(first.users) > 1 or not isinstance(layer, nn.Module):
            return False
        layer = copy.deepcopy(layer)
        fold_affine(layer, Affine(step.scale - 1, step.shift))
        before.target = f"{str(before.target).replace('.', '_')}_{len(self._modules)}"
        self._modules[before.target] = layer.requires_grad_(False)
        return True

    def _modulated(self, node: fx.Node, value: fx.Node, steps: list[Linked | Step]) -> fx.Node:
        """`value` scaled by the given steps and by what modulates the node's layer."""
        name = self._names.get(str(node.target)) if node.op == "call_module" else None
        in_rest = node in self._found.rest
        if name is not None and not (self.by_hooks and in_rest):
            if self._readers(node):
                return self._hook(node, name, value)
            steps = steps + [Linked(i, name) for i, part in enumerate(self._parts) if name in part.layers]
        return self._scaled(node, value, steps) if steps else value

    def _readers(self, node: fx.Node) -> bool:
        name = self._names.get(str(node.target))
        return any(part.reads_inputs and name in part.layers for part in self._parts)

    def _hook(self, node: fx.Node, name: str, value: fx.Node) -> fx.Node:
        self.hooked.add(name)
        inputs = tuple(self._known[arg] if isinstance(arg, fx.Node) else arg for arg in node.args)
        return self._graph.call_function(_hooked, (self._numbers, name, inputs, value))

    def _scaled(self, node: fx.Node, value: fx.Node, steps: list[Linked | Step]) -> fx.Node:
        layer = self._found.root.get_submodule(str(node.target))
        axis, dimensions = channels_of(layer)[1], self._found.dimensions[node.name]
        trailing = dimensions - 1 - axis if axis >= 0 else -1 - axis
        earlier = value.target is _scale and value.args[2:] == (trailing,)
        if earlier and len(cast(fx.Node, node.args[0]).users) == 1 and node in self._found.rest:
            self.chains[cast(int, value.args[3])].extend(steps)
            return value
        self.chains.append(steps)
        return self._graph.call_function(_scale, (self._numbers, value, trailing, len(self.chains) - 1))

    def _copy(self, node: fx.Node) -> fx.Node:
        copied = self._graph.node_copy(node, self._known.__getitem__)
        self._known[node] = copied
        if node.op == "call_module":
            self._modules[str(node.target)] = self._found.root.get_submodule(str(node.target))
        elif node.op == "get_attr":
            self._modules[str(node.target)] = _attribute(self._found.root, str(node.target))
        return copied


def _joined(chain: list[Linked | Step], affines: list[dict[str, Affine]]) -> Step:
    """All steps of a chain as one."""
    joined: Step | None = None
    for link in chain:
        step = link
        if isinstance(step, Linked):
            affine = affines[step.part][step.layer]
            step = Step(1 + affine.scale, affine.shift)
        joined = step if joined is None else Step(joined.scale * step.scale, step.shift + joined.shift * step.scale)
    assert joined is not None
    return joined


def _scale(numbers: Numbers, x: Tensor, trailing: int, chain: int) -> Tensor:
    scale, shift = (n.reshape(-1, *[1] * trailing).to(x.dtype) for n in numbers.chains[chain])
    return torch.addcmul(shift, x, scale)


def _hooked(numbers: Numbers, name: str, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
    for hook in numbers.hooks[name]:
        output = hook(inputs, output)
    return output


def _eval_step(layer: nn.Module) -> Step:
    """What a BatchNorm does in eval mode."""
    assert isinstance(layer, nn.modules.batchnorm._BatchNorm)
    mean, var = cast(Tensor, layer.running_mean), cast(Tensor, layer.running_var)
    scale = (var + layer.eps).rsqrt() * (1 if layer.weight is None else layer.weight.detach())
    shift = -mean * scale + (0 if layer.bias is None else layer.bias.detach())
    return Step(scale, shift)


def _overwrite_in_activations(graph: fx.Graph, modules: dict[str, Any]) -> None:
    """Let ReLUs write where they read, if nobody else reads there."""
    for node in list(graph.nodes):
        layer = modules.get(str(node.target)) if node.op == "call_module" else None
        plain = node.target in (functional.relu, torch.relu)
        if not (plain or type(layer) in (nn.ReLU, nn.LeakyReLU)) or not _is_fresh(node.args[0], modules):
            continue
        slope = layer.negative_slope if isinstance(layer, nn.LeakyReLU) else None
        with graph.inserting_before(node):
            arguments = (node.args[0],) if slope is None else (node.args[0], slope)
            target = torch.relu_ if slope is None else functional.leaky_relu_
            node.replace_all_uses_with(graph.call_function(target, arguments))
        graph.erase_node(node)


def _is_fresh(node: Any, modules: dict[str, Any]) -> bool:
    """Whether a value is new, read by nobody else, and not needed for the gradient of what made it."""
    if not isinstance(node, fx.Node) or len(node.users) > 1:
        return False
    layer = modules.get(str(node.target)) if node.op == "call_module" else None
    return node.target is _scale or type(layer) in LINEAR + CONVOLUTION


def _attribute(root: nn.Module, name: str) -> Any:
    owner, _, last = name.rpartition(".")
    return getattr(root.get_submodule(owner), last)
