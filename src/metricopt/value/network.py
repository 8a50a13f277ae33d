"""The paper's value network, as a stack of independent members.

One member is the paper's f; several are an ensemble; as many as there are tasks in a meta-batch are Reptile's inner
copies. All three are the same batched matrix products.
"""

import math
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

Norm = Literal["batch", "layer", "none"]


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
        h = (phi - self.input_mean) / self.input_std
        h = h.expand(self.members, *h.shape[-2:])
        for layer in range(len(self.hidden)):
            h = torch.baddbmm(self.biases[layer], h, self.weights[layer])  # (members, n, width)
            h = torch.relu(self._normalise(h, layer))
        return h

    def members_from_embedding(self, embedding: Tensor) -> Tensor:
        """Each member's cost, (members, n), of its embedding."""
        standard = torch.baddbmm(self.biases[-1], embedding, self.weights[-1]).squeeze(-1)
        return self.target_mean + self.target_std * standard

    def each(self, phi: Tensor) -> Tensor:
        """Each member's cost, (members, n)."""
        return self.members_from_embedding(self.embed(phi))

    def forward(self, phi: Tensor) -> Tensor:
        """Predicted cost, (n,), of phi (n, dim)."""
        return self.each(phi).mean(0)

    def cautious(self, phi: Tensor, kappa: float = 1.0) -> Tensor:
        """Predicted cost plus `kappa` times the members' disagreement, (n,): high where nobody has looked."""
        each = self.each(phi)
        return each.mean(0) + kappa * each.std(0, correction=0)

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
