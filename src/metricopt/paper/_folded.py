"""A value network in eval mode a second time, with its norms and scales written into the weights: for speed alone.

To understand the network read `network`: its one forward pass runs on these weights too, with half as many operations.
For the handful of points of each finetuning step there is that pass in NumPy besides. A guided step takes 1.13 plain
ones with it, 1.25 by the pass in torch and 1.39 without folding (measured as in `_single_phi`); six points alone take
20, 35 to 55 and 260 microseconds.
`tests/paper/test_network.py` holds all of it to the network layer by layer.
"""

from collections.abc import Sequence
from operator import attrgetter

import numpy as np
import torch
from torch import Tensor

# Up to so many points NumPy is faster.
FEW = 64
_version = attrgetter("_version")


class Folded:
    """Plain layers: a matrix, a bias, ReLU.

    Args:
        centre: Subtracted from phi first. (Within the bias it would cost digits where phi hardly varies.)
        weights: (members, before, after) each.
        biases: (members, 1, after) each.
        sources: The tensors they were made from.

    Example:
        >>> ones = [torch.ones(1, 2, 3), torch.ones(1, 3, 1)]
        >>> folded = Folded(torch.zeros(2), ones, [torch.zeros(1, 1, 3), torch.ones(1, 1, 1)], ())
        >>> folded.few(np.ones((1, 2), np.float32)).tolist()
        [7.0]
    """

    def __init__(
        self, centre: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor], sources: tuple[Tensor, ...]
    ) -> None:
        self.centre = centre
        self.weights = [weight.detach() for weight in weights]
        self.biases = [bias.detach() for bias in biases]
        self.trainable = any(tensor.requires_grad for tensor in sources)
        self._sources = sources
        self._versions = sum(map(_version, sources))
        self._on_cpu = centre.device.type == "cpu"
        if self._on_cpu:
            self._make_arrays()

    def is_current(self) -> bool:
        """Whether nothing has changed since the weights were made, as far as torch sees it (not through `.data`)."""
        return sum(map(_version, self._sources)) == self._versions  # each can only grow

    def few(self, points: np.ndarray) -> np.ndarray | None:
        """Mean over the members, (n,), of a few points (n, dim); None if they are many or the network is elsewhere."""
        if not self._on_cpu or len(points) > FEW:
            return None
        product = self._product
        zero = self._zero
        h = product(points - self._centre, self._first)  # (members, n, width + 1), or of the only one
        h += self._first_bias
        for layer in self._later:
            h = product(np.maximum(h, zero, out=h), layer)
        return h[:, 0] if self._alone else h[..., 0].mean(0)

    def _make_arrays(self) -> None:
        """Weights and biases of the first layer, and each later layer as one matrix; of one member without its axis."""
        self._alone = len(self.weights[0]) == 1
        self._product = np.dot if self._alone else np.matmul
        layers = _homogeneous(self.weights, self.biases)
        if self._alone:
            layers = [layer[0] for layer in layers]
        first, *self._later = layers
        self._first = first[..., :-1, :]
        self._first_bias = first[..., -1:, :]
        self._centre = self.centre.numpy()
        self._zero = np.zeros((), first.dtype)  # an array: a number would have to become one at every layer


def _homogeneous(weights: list[Tensor], biases: list[Tensor]) -> list[np.ndarray]:
    """Each layer as one matrix: its bias is the last row, and another column hands the constant 1 on, through ReLU."""
    arrays = []
    for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        matrix = torch.cat([weight, bias], 1)  # (members, before + 1, after)
        if layer < len(weights) - 1:
            one = torch.zeros_like(matrix[..., :1])
            one[:, -1] = 1.0
            matrix = torch.cat([matrix, one], 2)  # (members, before + 1, after + 1)
        arrays.append(matrix.numpy())
    return arrays
