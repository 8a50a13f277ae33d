"""A frozen network as a pure function of one vector phi."""

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, Self

import torch
from torch import Tensor, nn

from metricopt.adapters.fingerprint import fingerprint
from metricopt.adapters.finishing import finishing, gives_output
from metricopt.adapters.freezing import Flags, coarse, packed, placement
from metricopt.adapters.merging import check_same, merged
from metricopt.adapters.modulating import (
    at_the_original,
    has_attention,
    hooked,
    moved_weights,
    without_fused_attention,
)
from metricopt.adapters.population import Population, check_population
from metricopt.adapters.spec import Adapter, Modulation, Parts
from metricopt.adapters.weight_directions import MovedWeights, weights_of, weights_swapped
from metricopt.core.errors import AdapterError, MergeWarning
from metricopt.core.reading import Reader
from metricopt.core.tree import Call, Tree, call, described, each, placed, tensors_of


class AdaptedModel(nn.Module):
    """A frozen network modulated by one vector; `adapt` makes it.

    At phi = 0 it is the frozen network, bit for bit. A network with `nn.MultiheadAttention` runs here without torch's
    inference fast path, which skips the layers an adapter acts on and differs in the last bits: exact equality is with
    what the network gives under `torch.backends.mha.set_fastpath_enabled(False)`.

    Attributes:
        phi: The vector, (dim,), the only parameter that requires a gradient; in single precision of a network of half.
        net: The network, in eval mode whatever the mode of the model. Called directly, it is not modulated.
        spec: Description of the adapter.
        seed: Seed of the adapter's fixed matrices.
        modulations: The adapter's parts as bound to the network, their fixed matrices as buffers.
        call: How the network is called with inputs of any structure.
        reader: Which tensor of its output labels, scores and views are made of; None if there is none.
        half_type: The network's type of half precision, if it has one.
        gives_list: Whether it gave a list with one item an example for the example of `adapt`, as detectors do.
        flags: Modes and gradient flags of the network before it was frozen.

    Example:
        >>> from metricopt.adapters import OutputAffine, adapt
        >>> net = nn.Linear(4, 3)
        >>> model = adapt(net, OutputAffine())
        >>> x = torch.ones(5, 4)
        >>> torch.equal(model(x), net(x))
        True
        >>> model.outputs(torch.ones(7, model.dim), x).shape
        torch.Size([7, 5, 3])
    """

    def __init__(
        self,
        net: nn.Module,
        spec: Adapter,
        modulations: list[Modulation],
        *,
        seed: int,
        flags: Flags,
        call: Call = call,
        reader: Reader | None = None,
        gives_list: bool = False,
        check: Tree = None,
    ) -> None:
        super().__init__()
        device, dtype = placement(net)
        self.half_type = coarse(net)
        if self.half_type is not None:
            dtype = torch.float32
        self.net = net
        self.spec = spec
        self.seed = seed
        self.call = call
        self.reader = reader
        self.gives_list = gives_list
        self.flags = flags
        self.modulations = nn.ModuleList(modulations).to(device, dtype)
        starts = list(accumulate((modulation.dim for modulation in modulations), initial=0))
        self.phi = nn.Parameter(torch.zeros(starts[-1], device=device, dtype=dtype))
        self._slices = [slice(*ends) for ends in pairwise(starts)]
        self._has_attention = has_attention(net)
        self._check = check
        self._head_gives_output: bool | None = None  # not looked at yet
        self._net_acts = False
        self._vectorises = not packed(net)
        super().train(False)

    @property
    def dim(self) -> int:
        """Number of coordinates of phi."""
        return self.phi.numel()

    @property
    def like(self) -> Tensor:
        """An empty tensor where the network takes its inputs, of the type that it takes floating ones in."""
        return self.phi.detach()[:0].to(placement(self.net)[1] if self.half_type is not None else self.phi.dtype)

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the layers whose outputs depend on phi."""
        return tuple(dict.fromkeys(name for part, _ in self.parts() for name in part.layers))

    @property
    def shift_coordinates(self) -> slice | None:
        """Coordinates of phi that are added to the outputs, one per output unit, if the adapter has such."""
        for part, own in self.parts():
            if part.shifts is not None:
                return slice(own.start + part.shifts.start, own.start + part.shifts.stop)
        return None

    @property
    def moves_weights(self) -> bool:
        """Whether phi acts on the weights themselves."""
        return any(part.moves_weights for part, _ in self.parts())

    def moved_modules(self) -> list[nn.Module]:
        """Modules that hold a weight which phi moves, shared ones in all places."""
        names = {name for part, _ in self.parts() if isinstance(part, MovedWeights) for name in part.names}
        moved = {id(tensor) for name, tensor in weights_of(self.net).items() if name in names}
        return [
            module
            for module in self.net.modules()
            if any(id(tensor) in moved for tensor in (*module._parameters.values(), *module._buffers.values()))
        ]

    def train(self, mode: bool = True) -> Self:
        """Set the mode of the model; the network stays in eval mode."""
        super().train(mode)
        self.net.eval()
        return self

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """The network's output at the model's own phi, called as the network itself is."""
        self._check_device((inputs, named))
        return self._modulated(self.phi, lambda: self.net(*inputs, **named))

    def output(self, phi: Tensor, inputs: Tree, *, call: Call | None = None) -> Tree:
        """What the network gives at one phi (dim,), whatever its structure, differentiable in phi.

        Args:
            phi: One vector.
            inputs: One tensor, a tuple of positional parts, a mapping of named ones, or whatever `call` takes.
            call: Another way to call the network than the model's own.

        Example:
            >>> from metricopt.adapters import DynamicBias, adapt
            >>> model = adapt(nn.Linear(4, 3), DynamicBias(dim=2))
            >>> model.output(torch.zeros(2), torch.ones(5, 4)).shape
            torch.Size([5, 3])
        """
        self._check_device(inputs)
        return self._modulated(phi.to(self.phi), lambda: self.called(self.net, inputs, call=call))

    def called(self, net: nn.Module, inputs: Tree, *, call: Call | None = None) -> Tree:
        """What `net`, the model's or a copy of it, gives for copies of the inputs: layers may work in place.

        Example:
            >>> from metricopt.adapters import DynamicBias, adapt
            >>> net, x = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(2, 3)), -torch.ones(5, 2)
            >>> _ = adapt(net, DynamicBias(dim=2)).called(net, x)
            >>> x.max()
            tensor(-1.)
        """
        return (self.call if call is None else call)(net, each(Tensor.clone, inputs))

    def outputs(self, phi: Tensor, inputs: Tree, *, paired: bool = False) -> Tensor:
        """The tensor that is read from the output at each of a population of vectors, (population, n, ...).

        Differentiable in phi.

        Args:
            phi: Vectors, (population, dim).
            inputs: One tensor, a tuple of positional ones or a mapping of keyword ones, shared by all members.
            paired: Whether the inputs have a first axis of size population instead, one batch for each member.

        Example:
            >>> from metricopt.adapters import DynamicBias, adapt
            >>> model = adapt(nn.Linear(4, 3), DynamicBias(dim=2))
            >>> model.outputs(torch.zeros(6, 2), torch.ones(6, 5, 4), paired=True).shape
            torch.Size([6, 5, 3])
        """
        check_population(phi, inputs, dim=self.dim, paired=paired)
        self._check_device(inputs)
        several = Population(self._tensor_at)
        several.vectorises = self._vectorises and not self.moves_weights  # a copy of the weights for each member
        outputs = several(phi.to(self.phi), inputs, paired=paired)
        self._vectorises = several.vectorises or self.moves_weights
        return outputs

    @contextmanager
    def modulating(self, phi: Tensor) -> Iterator[set[str]]:
        """Within this context the layers of `net` are modulated by `phi` (dim,); outside they never are.

        Gives the set of modulated layers called so far. The network's output is left alone: an `OutputAffine` acts in
        `forward` and `outputs` only, and in `net_at`.

        Example:
            >>> from metricopt.adapters import DynamicBias, adapt
            >>> model = adapt(nn.Sequential(nn.Linear(4, 3)), DynamicBias(dim=2))
            >>> with model.modulating(torch.ones(2)) as called:
            ...     inside = model.net(torch.ones(1, 4))
            >>> called, torch.equal(inside, model.net(torch.ones(1, 4)))
            ({'0'}, False)
        """
        if self.net.training:  # its owner may have switched it
            self.net.eval()
        parts = self.parts_at(phi)
        with hooked(self.net, parts) as called, self.ordinary_attention():
            moved = moved_weights(self.net, parts) if self.moves_weights and not at_the_original(phi) else {}
            with weights_swapped(self.net, moved):
                yield called

    @contextmanager
    def net_at(self, phi: Tensor | None = None) -> Iterator[nn.Module]:
        """The network itself, which within this context computes what the model does at `phi` (dim,), or at its own.

        So do its methods, whether they call the network, its `forward` or its layers, and loops such as `generate`; it
        keeps its class and attributes, and no weight is changed. An `OutputAffine` acts on the layer that gives the
        output where the example of `adapt` shows that there is one; otherwise on what the network as a whole gives, and
        not in methods that call its layers one by one.

        Example:
            >>> from metricopt.adapters import OutputAffine, adapt
            >>> model = adapt(nn.Linear(4, 3), OutputAffine())
            >>> x, phi = torch.ones(5, 4), torch.ones(model.dim)
            >>> expected = model.output(phi, x)
            >>> with model.net_at(phi) as net:
            ...     net is model.net, torch.equal(net(x), expected)
            (True, True)
        """
        phi = (self.phi if phi is None else phi.to(self.phi)).detach()
        layer = self._output_layer()
        finish = partial(self.finished, phi) if layer is None else partial(self._on_tensor, phi)
        with self.modulating(phi), finishing(self.net, finish, layer=layer):
            self._net_acts = True
            try:
                yield self.net
            finally:
                self._net_acts = False

    def _output_layer(self) -> str | None:
        """The layer that gives the network's output, seen on the example of `adapt`; None if that is not known."""
        heads = {part.head for part, _ in self.parts() if part.acts_on_output}
        head = heads.pop() if len(heads) == 1 else None
        if not head or self._check is None:
            return head if head == "" else None  # with the name "" the network is that layer
        if self._head_gives_output is None:
            check = each(lambda tensor: placed(tensor, self.like), self._check)
            self._head_gives_output = gives_output(self.net, head, lambda: self.read(self.called(self.net, check)))
        return head if self._head_gives_output else None

    def merge(self, example: Tree = None) -> nn.Module:
        """A plain copy of the network that computes by itself what the adapted model computes at its phi.

        Same class and same `state_dict` keys, parameters requiring gradients as before adaptation, and in eval mode
        even if the network was not: in train mode it would not be what was judged, and its BatchNorms would drift. A
        layer without weight or bias gets one where it must hold a scale or shift. With an example, here or in `adapt`,
        the two are compared. Where weights cannot take the adapter in, as below a softmax, the copy is put into a
        module that computes it after them (`metricopt.adapters.computing`), and a warning says so.

        Example:
            >>> from metricopt.adapters import OutputAffine, adapt
            >>> model = adapt(nn.Linear(4, 3), OutputAffine())
            >>> _ = model.phi.data.fill_(0.5)
            >>> torch.allclose(model.merge()(torch.ones(2, 4)), model(torch.ones(2, 4)))
            True
        """
        net, why = self.merged(example)
        if why:
            warnings.warn(why, MergeWarning, stacklevel=2)
        return net

    def merged(self, example: Tree = None) -> tuple[nn.Module, str]:
        """What `merge` gives, and one sentence if not all of the adapter is folded into weights.

        Example:
            >>> from metricopt.adapters import OutputAffine, adapt
            >>> net, x = nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=1)), torch.ones(2, 4)
            >>> model = adapt(net, OutputAffine(), example=x)
            >>> _ = model.phi.data.fill_(0.5)
            >>> merged, why = model.merged()
            >>> type(merged).__name__, torch.equal(merged(x), model(x)), why.split(":")[0]
            ('Merged', True, 'the adapter cannot be folded into the weights, so merge gives a module that computes it')
        """
        check = self._check if example is None else example

        def compare(net: nn.Module) -> None:
            if check is not None:
                inputs = each(lambda tensor: placed(tensor, self.like), check)
                with torch.no_grad():
                    check_same(self.called(net, inputs), self.output(self.phi, inputs))

        return merged(self.net, self.parts_at(self.phi.detach()), self.flags, self.reader, compare=compare)

    def twin(self) -> "AdaptedModel":
        """Another model of the same network, with a phi and matrices of its own."""
        parts = [copy.deepcopy(part) for part, _ in self.parts()]
        return AdaptedModel(
            self.net,
            self.spec,
            parts,
            seed=self.seed,
            flags=self.flags,
            call=self.call,
            reader=self.reader,
            gives_list=self.gives_list,
            check=self._check,
        )

    def trainable(self) -> dict[str, bool]:
        """Which parameters of the network required gradients before it was adapted, by name."""
        return dict(self.flags.requires_grad)

    def tensors(self) -> dict[str, Tensor]:
        """Phi and the adapter's fixed matrices by name: what a file needs besides the network and `spec_dict()`."""
        return {name: tensor for name, tensor in self.state_dict().items() if not name.startswith("net.")}

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Take over phi and the fixed matrices that `tensors()` gave for the same adapter on the same network."""
        expected = {name: tuple(tensor.shape) for name, tensor in self.tensors().items()}
        found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        if found != expected:
            raise AdapterError(
                f"the tensors are {found}; this adapter has {expected}: adapt with the spec they are from"
            )
        self.load_state_dict(tensors, strict=False)

    def spec_dict(self) -> dict[str, Any]:
        """Description of the adapter as plain data; `adapter_from` makes the spec from its `adapters`."""
        return {"adapters": self.spec.as_dicts(), "seed": self.seed}

    def fingerprint(self) -> str:
        """Short hash of the network and of the adapter without its phi: equal only for the same function of phi."""
        return fingerprint(self.net, self.modulations, self.spec_dict())

    def parts(self) -> list[tuple[Modulation, slice]]:
        """The adapter's parts as bound to the network, each with its coordinates of phi."""
        return list(zip(self.modulations, self._slices, strict=True))  # pyright: ignore[reportReturnType]

    def parts_at(self, phi: Tensor) -> Parts:
        """The same, each with its part of one phi (dim,)."""
        return [(part, phi[own]) for part, own in self.parts()]

    def ordinary_attention(self) -> AbstractContextManager[None]:
        """Without torch's fused inference path, if the network has layers with one."""
        return without_fused_attention() if self._has_attention else nullcontext()

    def _modulated(self, phi: Tensor, compute: Callable[[], Tree]) -> Tree:
        if self._net_acts:
            raise AdapterError(
                "the model was called within its net_at, where phi would act twice: call the network given"
            )
        with self.modulating(phi) as called:
            output = compute()
        for part, _ in self.parts():
            if part.layers and called.isdisjoint(part.layers):
                raise AdapterError(
                    f"the network never called {part.layers[0]!r} or any other layer the adapter is bound to, so phi "
                    f"does nothing; name other layers, or give adapt(..., example=) a batch to find those it calls"
                )
        return self.finished(phi, output)

    def finished(self, phi: Tensor, output: Tree) -> Tree:
        """The network's output with what the adapter does to it as a whole, at one phi (dim,)."""
        if not any(part.acts_on_output for part, _ in self.parts()):
            return output
        tensor = self._on_tensor(phi, self.read(output))
        return tensor if self.reader is None else self.reader.put(output, tensor)

    def _on_tensor(self, phi: Tensor, tensor: Tensor) -> Tensor:
        for part, own in self.parts_at(phi):
            if part.acts_on_output:
                tensor = part.on_output(own, tensor)
        return tensor

    def read(self, output: Tree) -> Tensor:
        """The tensor of an output that labels, scores and views are made of."""
        tensor = output if self.reader is None else self.reader(output)
        if not isinstance(tensor, Tensor):
            raise AdapterError(
                f"the network gave {described(output)[:200]}, in which no tensor is recognised; expected one: say "
                f"which by read=, or wrap the network"
            )
        return tensor

    def _tensor_at(self, phi: Tensor, inputs: Tree) -> Tensor:
        return self.fine(self.read(self.output(phi, inputs)))

    def fine(self, tensor: Tensor) -> Tensor:
        """A tensor read from the output, in the type of phi if it is of half precision: search and views are finer."""
        return tensor.to(self.phi.dtype) if tensor.dtype in (torch.float16, torch.bfloat16) else tensor

    def _check_device(self, inputs: Tree) -> None:
        for tensor in tensors_of(inputs):
            if tensor.device != self.phi.device:
                raise AdapterError(
                    f"the inputs are on {tensor.device}, the network on {self.phi.device}; move either: "
                    f"inputs.to({str(self.phi.device)!r})"
                )
