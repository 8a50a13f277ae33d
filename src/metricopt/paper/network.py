"""The paper's value network f, as a stack of independent members.

One member is the paper's f; several are an ensemble; as many as there are tasks in a meta-batch are Reptile's inner
copies. All three are the same batched matrix products.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor, nn

from metricopt.paper._folded import Folded

Norm = Literal["batch", "layer", "none"]

_EPSILON = 1e-5  # torch's own, of a variance
_MOMENTUM = 0.1  # torch's own, of tracked statistics


def hidden_layers(
    h: Tensor,
    weights: Sequence[Tensor] | nn.ParameterList,
    biases: Sequence[Tensor] | nn.ParameterList,
    normalise: Callable[[Tensor, int], Tensor] | None = None,
) -> Tensor:
    """Features before the last layer, (members, n, width), of inputs (n, dim) or (members, n, dim).

    Args:
        h: The inputs.
        weights: (members, before, after) of each layer, the last one included.
        biases: (members, 1, after) of each layer.
        normalise: What is done before the ReLU of a layer of so many.

    Example:
        >>> hidden_layers(torch.ones(1, 2), [torch.ones(1, 2, 3), torch.ones(1, 3, 1)], [torch.ones(1, 1, 3)])
        tensor([[[3., 3., 3.]]])
    """
    h = h.expand(len(weights[0]), *h.shape[-2:])
    for layer in range(len(weights) - 1):
        h = torch.baddbmm(biases[layer], h, weights[layer])  # (members, n, width)
        if normalise is not None:
            h = normalise(h, layer)
        h = h.relu_()
    return h


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
        self.dim = dim
        self.members = members
        self.hidden = tuple(hidden)
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
        self._last_folded: Folded | None = None

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
        folded = self._folded_unless_learning()
        if folded is not None:
            return hidden_layers(phi - folded.centre, folded.weights, folded.biases)
        standard = (phi - self.input_mean) / self.input_std
        return hidden_layers(standard, self.weights, self.biases, self._normalise)

    def members_from_embedding(self, embedding: Tensor) -> Tensor:
        """Each member's cost, (members, n), of its embedding."""
        folded = self._folded_unless_learning()
        if folded is not None:
            return torch.baddbmm(folded.biases[-1], embedding, folded.weights[-1]).squeeze(-1)
        standard = torch.baddbmm(self.biases[-1], embedding, self.weights[-1]).squeeze(-1)
        return self.target_mean + self.target_std * standard

    def each(self, phi: Tensor) -> Tensor:
        """Each member's cost, (members, n)."""
        return self.members_from_embedding(self.embed(phi))

    def forward(self, phi: Tensor) -> Tensor:
        """Predicted cost, (n,), of phi (n, dim)."""
        return self.each(phi).mean(0)

    def on_host(self, points: np.ndarray) -> np.ndarray | None:
        """Predicted cost in eval mode, whatever the present mode, of a few points (n, dim); None if it needs torch."""
        return None if self.norm == "layer" else self._folded().few(points)

    def _normalise(self, h: Tensor, layer: int) -> Tensor:
        if self.norm == "none":
            return h
        if self.norm == "layer":
            mean = h.mean(-1, keepdim=True)
            var = h.var(-1, keepdim=True, correction=0)
        elif self.training:
            mean = h.mean(1, keepdim=True)
            var = h.var(1, keepdim=True, correction=0)
            self._track(layer, mean, var, rows=h.shape[1])
        else:
            mean, var = self._tracked(layer)
        return (h - mean) / (var + _EPSILON).sqrt() * self.gains[layer] + self.offsets[layer]

    def _tracked(self, layer: int) -> tuple[Tensor, Tensor]:
        return self.get_buffer(f"running_mean_{layer}"), self.get_buffer(f"running_var_{layer}")

    @torch.no_grad()
    def _track(self, layer: int, mean: Tensor, var: Tensor, *, rows: int) -> None:
        running_mean, running_var = self._tracked(layer)
        running_mean.lerp_(mean, _MOMENTUM)
        running_var.lerp_(var * rows / max(rows - 1, 1), _MOMENTUM)

    def _folded_unless_learning(self) -> Folded | None:
        """The network as plain layers, unless its own gradient is wanted or its norm depends on the rows."""
        if self.training or self.norm == "layer":
            return None
        folded = self._folded()
        return None if folded.trainable and torch.is_grad_enabled() else folded

    def _folded(self) -> Folded:
        if self._last_folded is None or not self._last_folded.is_current():
            self._last_folded = self._fold()
        return self._last_folded

    @torch.no_grad()
    def _fold(self) -> Folded:
        weights: list[Tensor] = list(self.weights)
        biases: list[Tensor] = list(self.biases)
        if self.norm == "batch":
            for layer in range(len(self.hidden)):
                mean, var = self._tracked(layer)
                scale = self.gains[layer] / (var + _EPSILON).sqrt()  # (members, 1, width)
                weights[layer] = weights[layer] * scale
                biases[layer] = (biases[layer] - mean) * scale + self.offsets[layer]
        weights[0] = weights[0] / self.input_std.unsqueeze(-1)
        weights[-1] = weights[-1] * self.target_std
        biases[-1] = biases[-1] * self.target_std + self.target_mean
        return Folded(self.input_mean, weights, biases, (*self.parameters(), *self.buffers()))

    def __getstate__(self) -> dict[str, Any]:
        # The versions of tensors begin anew in a copy: it could not tell when its plain layers are out of date.
        return {**self.__dict__, "_last_folded": None}

    def _apply(self, *arguments: Any, **options: Any) -> Self:
        self._last_folded = None  # tensors are about to be replaced, on another device perhaps
        return super()._apply(*arguments, **options)

    def _load_from_state_dict(self, *arguments: Any, **options: Any) -> None:
        self._last_folded = None  # they may be replaced here too
        super()._load_from_state_dict(*arguments, **options)


def _uniform(shape: tuple[int, ...], fan_in: int, generator: torch.Generator) -> nn.Parameter:
    bound = 1 / math.sqrt(fan_in)
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound, generator=generator))
