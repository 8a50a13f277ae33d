"""The paper's value network, as a stack of independent members.

One member is the paper's f; several are an ensemble; as many as there are tasks in a meta-batch are Reptile's inner
copies. All three are the same batched matrix products.
"""

import math
from itertools import pairwise
from operator import attrgetter
from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor, nn

Norm = Literal["batch", "layer", "none"]

_FEW = 64
_version = attrgetter("_version")


class Folded:
    """A value network in eval mode with its norms and scales written into the weights: half as many operations.

    Args:
        centre: Subtracted from phi first. (Within the bias it would cost digits where phi hardly varies.)
        weights: (members, before, after) each.
        biases: (members, 1, after) each.
        sources: The tensors they were made from.

    Example:
        >>> ones = [torch.ones(1, 2, 3), torch.ones(1, 3, 1)]
        >>> Folded(torch.zeros(2), ones, [torch.zeros(1, 1, 3), torch.zeros(1, 1, 1)], ()).embed(torch.ones(1, 2))
        tensor([[[2., 2., 2.]]])
    """

    def __init__(
        self, centre: Tensor, weights: list[Tensor], biases: list[Tensor], sources: tuple[Tensor, ...]
    ) -> None:
        self.centre, self.weights, self.biases = centre, weights, biases
        self.trainable = any(tensor.requires_grad for tensor in sources)
        self._sources, self._versions = sources, sum(map(_version, sources))
        self._alone = len(weights[0]) == 1
        self._flat = [(w[0], b[0, 0]) for w, b in zip(weights[:-1], biases[:-1], strict=True)]
        self._on_cpu = centre.device.type == "cpu"
        self._arrays = self._as_arrays() if self._on_cpu else []
        # An array: a number would have to become one at every layer.
        self._zero = np.zeros((), self._arrays[0].dtype if self._arrays else np.float32)

    def _as_arrays(self) -> list[np.ndarray]:
        """The centre, weights and biases of the first layer, and each later layer as one matrix."""
        first, *later = _homogeneous(self.weights, self.biases)
        arrays = [first[:, :-1], first[:, -1:], *later]
        return [self.centre.numpy(), *([array[0] for array in arrays] if self._alone else arrays)]

    def is_current(self) -> bool:
        """Whether nothing has changed since the weights were made, as far as torch sees it (not through `.data`)."""
        return sum(map(_version, self._sources)) == self._versions  # each can only grow

    def few(self, points: np.ndarray) -> np.ndarray | None:
        """Mean over the members, (n,), of a few points (n, dim); None if they are many or the network is elsewhere.

        In NumPy: for the handful of points of each finetuning step torch takes three times as long.
        """
        if not self._on_cpu or len(points) > _FEW:
            return None
        product = np.dot if self._alone else np.matmul
        centre, weight, bias, *later = self._arrays
        zero = self._zero
        h = product(points - centre, weight)  # (members, n, width + 1), or of the only one
        h += bias
        for weight in later:
            h = product(np.maximum(h, zero, out=h), weight)
        return h[:, 0] if self._alone else h[..., 0].mean(0)

    def embed(self, phi: Tensor) -> Tensor:
        """Penultimate features, (members, n, width), of phi (n, dim) or (members, n, dim)."""
        h = phi - self.centre
        if self._alone and h.dim() == 2:
            for weight, bias in self._flat:
                h = torch.addmm(bias, h, weight).relu_()
            return h.unsqueeze(0)
        h = h.expand(len(self.weights[0]), *h.shape[-2:])
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            h = torch.baddbmm(bias, h, weight).relu_()
        return h


def _homogeneous(weights: list[Tensor], biases: list[Tensor]) -> list[np.ndarray]:
    """Each layer as one matrix: its bias is the last row, and another column hands the constant 1 on, through ReLU."""
    last, arrays = len(weights) - 1, []
    for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        matrix = torch.cat([weight, bias], 1)  # (members, before + 1, after)
        one = torch.zeros_like(matrix[..., :1])
        one[:, -1] = 1.0
        arrays.append((matrix if layer == last else torch.cat([matrix, one], 2)).numpy())
    return arrays


class ValueNetwork(nn.Module):
    """MLP dim-64-32-32-16-1 with ReLU from phi to the metric's cost, `members` of them side by side.

    Inputs and targets are standardised by buffers set in `standardise`: without it a flat f is the usual outcome
    (docs/paper-notes.md). With `norm="batch"` and no call of `standardise` this is the paper's network.

    Args:
        dim: Size of phi.
        members: Independent networks in the stack; their mean is the prediction, their spread a warning.
        hidden: Widths of the hidden layers; the last is the embedding that L_oe orders.
        norm: Normalisation before each ReLU.
        generator: Source of the initial weights.

    Example:
        >>> value = ValueNetwork(16, generator=torch.Generator().manual_seed(0)).eval()
        >>> value(torch.zeros(5, 16)).shape, value.embed(torch.zeros(5, 16)).shape
        (torch.Size([5]), torch.Size([1, 5, 16]))
    """

    input_mean: Tensor
    input_std: Tensor
    target_mean: Tensor
    target_std: Tensor

    def __init__(
        self,
        dim: int,
        *,
        members: int = 1,
        hidden: tuple[int, ...] = (64, 32, 32, 16),
        norm: Norm = "batch",
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.dim, self.members, self.hidden = dim, members, tuple(hidden)
        self.norm: Norm = norm
        widths = (dim, *hidden, 1)
        self.weights = nn.ParameterList(_uniform((members, a, b), a, generator) for a, b in pairwise(widths))
        self.biases = nn.ParameterList(_uniform((members, 1, b), a, generator) for a, b in pairwise(widths))
        self.gains = nn.ParameterList(nn.Parameter(torch.ones(members, 1, width)) for width in hidden)
        self.offsets = nn.ParameterList(nn.Parameter(torch.zeros(members, 1, width)) for width in hidden)
        for layer, width in enumerate(hidden):
            self.register_buffer(f"running_mean_{layer}", torch.zeros(members, 1, width))
            self.register_buffer(f"running_var_{layer}", torch.ones(members, 1, width))
        self.register_buffer("input_mean", torch.zeros(dim))
        self.register_buffer("input_std", torch.ones(dim))
        self.register_buffer("target_mean", torch.zeros(()))
        self.register_buffer("target_std", torch.ones(()))
        self._folded: Folded | None = None

    @torch.no_grad()
    def standardise(self, phi: Tensor, costs: Tensor) -> None:
        """Set the scale of inputs and targets from examples of phi (n, dim) and costs (n,)."""
        self.input_mean.copy_(phi.mean(0))
        # One scale for all coordinates: per-coordinate scales would blow up coordinates that hardly moved.
        self.input_std.fill_(float(phi.std(0).square().mean().sqrt().clamp_min(1e-6)))
        self.target_mean.copy_(costs.mean())
        self.target_std.copy_(costs.std().clamp_min(1e-4))

    def embed(self, phi: Tensor) -> Tensor:
        """Penultimate features g(phi) of each member, (members, n, width), of phi (n, dim) or (members, n, dim)."""
        folded = self._fold()
        if folded is not None:
            return folded.embed(phi)
        h = (phi - self.input_mean) / self.input_std
        h = h.expand(self.members, *h.shape[-2:])
        for layer in range(len(self.hidden)):
            h = torch.baddbmm(self.biases[layer], h, self.weights[layer])  # (members, n, width)
            h = torch.relu(self._normalise(h, layer))
        return h

    def members_from_embedding(self, embedding: Tensor) -> Tensor:
        """Each member's cost, (members, n), of its embedding."""
        folded = self._fold()
        if folded is not None:
            return torch.baddbmm(folded.biases[-1], embedding, folded.weights[-1]).squeeze(-1)
        standard = torch.baddbmm(self.biases[-1], embedding, self.weights[-1]).squeeze(-1)
        return self.target_mean + self.target_std * standard

    def each(self, phi: Tensor) -> Tensor:
        """Each member's cost, (members, n)."""
        return self.members_from_embedding(self.embed(phi))

    def forward(self, phi: Tensor) -> Tensor:
        """Predicted cost, (n,), of phi (n, dim)."""
        without_graph = phi.dim() == 2 and not (torch.is_grad_enabled() and phi.requires_grad)
        folded = self._fold() if without_graph and phi.device.type == "cpu" else None
        few = None if folded is None else folded.few(phi.detach().numpy())
        return self.each(phi).mean(0) if few is None else torch.from_numpy(few)

    def on_host(self, points: np.ndarray) -> np.ndarray | None:
        """Predicted cost in eval mode, whatever the present mode, of a few points (n, dim); None if it needs torch."""
        return None if self.norm == "layer" else self._plain_layers().few(points)

    def cautious(self, phi: Tensor, kappa: float = 1.0) -> Tensor:
        """Predicted cost plus `kappa` times the members' disagreement, (n,): high where nobody has looked."""
        each = self.each(phi)
        return each.mean(0) + kappa * each.std(0, correction=0)

    def __getstate__(self) -> dict[str, Any]:
        # The versions of tensors begin anew in a copy: it could not tell when its plain layers are out of date.
        return {**self.__dict__, "_folded": None}

    def _apply(self, *arguments: Any, **options: Any) -> Self:
        self._folded = None  # tensors are about to be replaced, on another device perhaps
        return super()._apply(*arguments, **options)

    def _load_from_state_dict(self, *arguments: Any, **options: Any) -> None:
        self._folded = None  # they may be replaced here too
        super()._load_from_state_dict(*arguments, **options)

    def _fold(self) -> Folded | None:
        """The network in eval mode as plain layers, unless its own gradient is wanted or its norm depends on rows."""
        if self.training or self.norm == "layer":
            return None
        folded = self._plain_layers()
        return None if folded.trainable and torch.is_grad_enabled() else folded

    def _plain_layers(self) -> Folded:
        if self._folded is None or not self._folded.is_current():
            self._folded = self._as_plain_layers()
        return self._folded

    @torch.no_grad()
    def _as_plain_layers(self) -> Folded:
        weights, biases = list(self.weights), list(self.biases)
        for layer in range(len(self.hidden) if self.norm == "batch" else 0):
            mean, var = self.get_buffer(f"running_mean_{layer}"), self.get_buffer(f"running_var_{layer}")
            scale = self.gains[layer] / (var + 1e-5).sqrt()  # (members, 1, width)
            weights[layer], biases[layer] = (
                weights[layer] * scale,
                (biases[layer] - mean) * scale + self.offsets[layer],
            )
        weights[0] = weights[0] / self.input_std.unsqueeze(-1)
        weights[-1], biases[-1] = weights[-1] * self.target_std, biases[-1] * self.target_std + self.target_mean
        plain = [tensor.detach() for tensor in (*weights, *biases)]
        sources = [*self.weights, *self.biases, self.input_mean, self.input_std, self.target_mean, self.target_std]
        if self.norm == "batch":
            sources += [
                *self.gains,
                *self.offsets,
                *(t for name, t in self.named_buffers() if name.startswith("running")),
            ]
        return Folded(self.input_mean, plain[: len(weights)], plain[len(weights) :], tuple(sources))

    def _normalise(self, h: Tensor, layer: int) -> Tensor:
        if self.norm == "none":
            return h
        if self.norm == "layer":
            mean, var = h.mean(-1, keepdim=True), h.var(-1, keepdim=True, correction=0)
        elif self.training:
            mean, var = h.mean(1, keepdim=True), h.var(1, keepdim=True, correction=0)
            self._track(layer, mean, var, rows=h.shape[1])
        else:
            mean, var = self.get_buffer(f"running_mean_{layer}"), self.get_buffer(f"running_var_{layer}")
        return (h - mean) / (var + 1e-5).sqrt() * self.gains[layer] + self.offsets[layer]

    @torch.no_grad()
    def _track(self, layer: int, mean: Tensor, var: Tensor, *, rows: int, momentum: float = 0.1) -> None:
        self.get_buffer(f"running_mean_{layer}").lerp_(mean, momentum)
        self.get_buffer(f"running_var_{layer}").lerp_(var * rows / max(rows - 1, 1), momentum)

    def copies(self, members: int) -> "ValueNetwork":
        """A stack of `members` copies of a one-member network (Reptile's inner copies)."""
        fresh = ValueNetwork(self.dim, members=members, hidden=self.hidden, norm=self.norm, generator=torch.Generator())
        state = {
            name: tensor.repeat(members, *[1] * (tensor.dim() - 1)) if tensor.dim() == 3 else tensor.clone()
            for name, tensor in self.state_dict().items()
        }
        fresh.load_state_dict(state)
        return fresh

    @torch.no_grad()
    def move_towards(self, copies: "ValueNetwork", rate: float) -> None:
        """Reptile's meta-update: weights move by `rate` towards the mean of the trained copies."""
        for name, tensor in self.state_dict().items():
            if tensor.dim() == 3:
                tensor.lerp_(copies.state_dict()[name].mean(0, keepdim=True), rate)


def _uniform(shape: tuple[int, ...], fan_in: int, generator: torch.Generator) -> nn.Parameter:
    bound = 1 / math.sqrt(fan_in)
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound, generator=generator))
