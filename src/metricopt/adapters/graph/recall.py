"""Networks that no trace can cut, as detectors: what their modules give before phi acts is recalled, not computed.

Whatever a network does before the first modulated layer has given its output cannot depend on phi. So modules that are
through by then need not run again for the same example: they are called, and give back what they gave. The rest is the
network's own code, and its answers are the same, bit for bit. Of a detector with a modulated pyramid the body is never
run again; with a modulated box head, neither are the pyramid, the proposals and the pooling.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn

from metricopt.adapters import AdaptedModel
from metricopt.adapters.graph.trace import CutError
from metricopt.core.tree import Tree, opened, tensors_of


@dataclass(frozen=True)
class Remembered:
    """One example as far as phi cannot change it.

    Attributes:
        inputs: What the network is called with.
        values: What modules gave, in the order of their calls.
    """

    inputs: Tree
    values: tuple[Any, ...]


@final
class Recall:
    """An adapted model that recalls what its modules gave for an example.

    Args:
        model: The adapted model.
        probe: Inputs of one example, by which it is found out, and tried, what can be recalled.

    Attributes:
        names: Modules whose calls are recalled, in order.
        kept: Which of them give something that the others do not make superfluous.

    Example:
        >>> from metricopt.adapters import FiLM, adapt
        >>> class Branching(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.body, self.norm = nn.Linear(3, 4), nn.BatchNorm1d(4)
        ...     def forward(self, x):
        ...         return [row if float(row.sum()) > 0 else -row for row in self.norm(self.body(x))]
        >>> model, x = adapt(Branching(), FiLM(dim=2)), torch.ones(1, 3)
        >>> recall = Recall(model, x)
        >>> recall.names, recall.kept
        (('body', 'norm'), (False, True))
        >>> phi = torch.ones(2)
        >>> torch.equal(recall.output(phi, recall.remember(x))[0], model.output(phi, x)[0])
        True
    """

    def __init__(self, model: AdaptedModel, probe: Tree) -> None:
        self._model = model
        self.names = tuple(_before_phi(model, probe))
        if not any(next(model.net.get_submodule(name).parameters(), None) is not None for name in self.names):
            raise CutError("nothing of the network is computed before phi acts")
        self.kept = (True,) * len(self.names)
        self._inputs = True
        phi = torch.randn(model.dim, generator=torch.Generator().manual_seed(0)).to(model.phi)
        with torch.no_grad():
            wanted = [model.output(each, probe) for each in (phi, torch.zeros_like(phi))]
            full = self._remembered(probe)
            self._check(full, phi, wanted)
            self._spare(full, phi, wanted)

    def remember(self, inputs: Tree) -> Remembered:
        """What is needed of one example to compute the rest for any phi."""
        with torch.no_grad():
            return self._lean(self._remembered(inputs))

    def output(self, phi: Tensor, example: Remembered, *, model: AdaptedModel | None = None) -> Tree:
        """What the model, or a twin of it, gives for the example at one phi (dim,), differentiable in phi."""
        with self.recalling(self._model.net, example):
            return (self._model if model is None else model).output(phi, example.inputs)

    def _remembered(self, inputs: Tree) -> Remembered:
        values: list[Any] = []
        with _noting(self._model.net, self.names, values):
            self._model.call(self._model.net, inputs)
        return Remembered(inputs, tuple(values))

    def _lean(self, full: Remembered) -> Remembered:
        values = tuple(
            value if kept else each_within(_hollow, value) for kept, value in zip(self.kept, full.values, strict=True)
        )
        return Remembered(full.inputs if self._inputs else each_within(_hollow, full.inputs), values)

    def _spare(self, full: Remembered, phi: Tensor, wanted: list[Tree]) -> None:
        """Find what need not be kept: where nothing but shapes is looked at, anything of that shape does."""
        for place in range(len(self.names)):
            before = self.kept
            self.kept = (*before[:place], False, *before[place + 1 :])
            if not self._agrees(self._lean(full), phi, wanted):
                self.kept = before
        self._inputs = False
        self._inputs = not self._agrees(self._lean(full), phi, wanted)

    def _check(self, full: Remembered, phi: Tensor, wanted: list[Tree]) -> None:
        before = each_within(torch.clone, full.values)
        if not self._agrees(full, phi, wanted):
            raise CutError("it computes something else when it is called again")
        if not _same(before, full.values):
            raise CutError("it overwrites activations that would be kept")

    def _agrees(self, example: Remembered, phi: Tensor, wanted: list[Tree]) -> bool:
        try:
            found = [self.output(each, example) for each in (phi, torch.zeros_like(phi))]
        except (RuntimeError, ValueError, IndexError, AssertionError):
            return False
        return all(_same(one, other) for one, other in zip(found, wanted, strict=True))

    @contextmanager
    def recalling(self, net: nn.Module, example: Remembered) -> Iterator[None]:
        """Within this context the first call of each module of the network or a copy in turn gives what it gave."""
        left: dict[str, list[Any]] = {}
        for name, value in zip(self.names, example.values, strict=True):
            left.setdefault(name, []).append(value)
        modules = [net.get_submodule(name) for name in left]
        before = [dict(vars(module)) for module in modules]
        for module, given in zip(modules, left.values(), strict=True):
            # Not a hook: it could change an output, but not spare its computation. Hooks that modulate still act.
            vars(module)["forward"] = _giving(given, module.forward)
        try:
            yield
        finally:
            for module, attributes in zip(modules, before, strict=True):
                vars(module).pop("forward")
                vars(module).update({k: v for k, v in attributes.items() if k == "forward"})


def _giving(values: list[Any], forward: Callable[..., Any]) -> Callable[..., Any]:
    left = iter(values)

    def give(*inputs: Any, **named: Any) -> Any:
        for value in left:
            return each_within(lambda tensor: tensor, value)  # containers of its own: networks write into them
        return forward(*inputs, **named)

    return give


def _before_phi(model: AdaptedModel, probe: Tree) -> list[str]:
    """Names of modules whose calls are through before phi acts, outermost ones only, one for each call in order."""
    modulated, through, acting = set(model.layers), [], False
    handles = []

    def begins(_module: nn.Module, _inputs: Any) -> None:
        nonlocal acting
        acting = True

    def ends(name: str) -> Callable[..., None]:
        def hook(_module: nn.Module, _inputs: Any, _output: Any) -> None:
            nonlocal acting
            if acting:
                return
            # What was called within this call is superseded by it.
            inside = f"{name}." if name else ""
            while through and name and through[-1].startswith(inside):
                through.pop()
            through.append(name)
            acting = name in modulated

        return hook

    for name, module in model.net.named_modules():
        if name and not isinstance(module, nn.ModuleList | nn.ModuleDict):
            handles.append(module.register_forward_hook(ends(name)))
    # What computes with weights that phi moves gives something else from its first line on.
    handles += [module.register_forward_pre_hook(begins) for module in model.moved_modules()]
    try:
        with torch.no_grad():
            model.call(model.net, probe)
    finally:
        for handle in handles:
            handle.remove()
    if not acting:
        raise CutError("the example does not reach the layers that phi acts on")
    return through


@contextmanager
def _noting(net: nn.Module, names: Sequence[str], values: list[Any]) -> Iterator[None]:
    """Within this context what the named calls give is written down, in their order."""
    expected = iter(names)
    wanted: list[str | None] = [next(expected, None)]

    def notes(name: str) -> Callable[..., None]:
        def hook(_module: nn.Module, _inputs: Any, output: Any) -> None:
            if name == wanted[0]:
                values.append(each_within(torch.clone, output))  # what follows may write into it
                wanted[0] = next(expected, None)

        return hook

    handles = [net.get_submodule(name).register_forward_hook(notes(name)) for name in dict.fromkeys(names)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def each_within(change: Callable[[Tensor], Tensor], value: Any) -> Any:
    """The same with every tensor changed, those that an object holds as attributes too, as torchvision's images do."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, dict):
        return type(value)((name, each_within(change, part)) for name, part in value.items())
    if isinstance(value, list):
        return [each_within(change, part) for part in value]
    if isinstance(value, tuple):
        parts = [each_within(change, part) for part in value]
        return tuple(parts) if type(value) is tuple else type(value)(*parts)
    if any(isinstance(part, Tensor) for part in getattr(value, "__dict__", {}).values()):
        twin = copy.copy(value)
        vars(twin).update({name: each_within(change, part) for name, part in vars(value).items()})
        return twin
    return value


def each_tensor(change: Callable[[Tensor], Tensor], example: Remembered) -> Remembered:
    """The same example with every tensor changed."""
    return Remembered(each_within(change, example.inputs), each_within(change, example.values))


def together(examples: Sequence[Remembered]) -> Remembered | None:
    """Several examples as one batch, which is faster and not the same in the last bits; None if shapes forbid it.

    Example:
        >>> one = Remembered(torch.zeros(1, 2), ({"a": torch.ones(1, 3)},))
        >>> together([one, one]).values[0]["a"].shape
        torch.Size([2, 3])
    """
    try:
        return Remembered(_joined([each.inputs for each in examples]), _joined([each.values for each in examples]))
    except RuntimeError:  # of images that differ in size
        return None


def _joined(parts: Sequence[Any]) -> Any:
    """Values of the same kind one below the other, tensors within objects too."""
    first = parts[0]
    if isinstance(first, Tensor):
        return torch.cat(list(parts))
    if isinstance(first, list):
        return [item for part in parts for item in part]
    if isinstance(first, dict):
        return type(first)((name, _joined([part[name] for part in parts])) for name in first)
    if isinstance(first, tuple):
        return tuple(_joined(column) for column in zip(*parts, strict=True))
    if any(isinstance(part, Tensor) for part in getattr(first, "__dict__", {}).values()):
        twin = copy.copy(first)
        vars(twin).update({name: _joined([vars(part)[name] for part in parts]) for name in vars(first)})
        return twin
    return first


def _hollow(tensor: Tensor) -> Tensor:
    """A tensor of the same shape that takes no room."""
    return tensor.new_zeros(()).expand(tensor.shape)


def _same(one: Tree, other: Tree) -> bool:
    """Whether two outputs are the same, bit for bit."""
    parts, others = tensors_of(opened(one)), tensors_of(opened(other))
    return len(parts) == len(others) and all(
        a.shape == b.shape and torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(parts, others, strict=True)
    )
