"""Steps of a rule's weights that are taken back where the value function turns out to have misled them.

A rule in training soon finds where the value function promises too much. What it is told there is answered by the
metric one iteration later; then the weights go back to where both last agreed, and on at half the rate, while the value
function learns from what was seen. Algorithm S1 has no such thing and is lost there: see the page on learned
optimizers.
"""

from typing import final

import torch
from torch import Tensor

from metricopt.paper.learned.named_tensors import adam_tensors, in_parts, load_adam, part_of

_SLOWER = 0.5


@final
class TrustedSteps:
    """Adam on weights, with a way back.

    Args:
        weights: The first ones, (size,).
        lr: Adam's rate as long as nothing was taken back.

    Example:
        >>> steps = TrustedSteps(torch.zeros(2), lr=0.1)
        >>> steps.take(torch.tensor([1.0, -1.0]))
        >>> steps.weights
        tensor([-0.1000,  0.1000])
        >>> steps.take_back(), steps.weights.tolist(), steps.slower
        (True, [0.0, 0.0], 0.5)
        >>> steps.take_back()  # nothing was done since
        False
    """

    def __init__(self, weights: Tensor, *, lr: float) -> None:
        self._parameter = torch.nn.Parameter(weights.clone())
        self._trusted = weights.clone()
        self._lr = lr
        self._adam = torch.optim.Adam([self._parameter], lr=lr)
        self.slower = 1.0

    @property
    def weights(self) -> Tensor:
        """Where the steps have led."""
        return self._parameter.detach()

    def take(self, gradient: Tensor, *, share: float = 1.0) -> None:
        """One step against a gradient, at so much of the rate."""
        self._adam.param_groups[0]["lr"] = self.slower * share * self._lr
        self._parameter.grad = gradient
        self._adam.step()

    def trust(self) -> None:
        """The value function was right about these weights: this is where later steps are taken back to."""
        self._trusted = self.weights.clone()

    def take_back(self) -> bool:
        """Back to the trusted weights, on from there at half the rate; whether there was anything to take back."""
        if torch.equal(self.weights, self._trusted):
            return False
        self.slower *= _SLOWER
        with torch.no_grad():
            self._parameter.copy_(self._trusted)
        # Averages of gradients that led astray would lead there again.
        self._adam = torch.optim.Adam([self._parameter], lr=self._lr)
        return True

    def tensors(self) -> dict[str, Tensor]:
        """All that is needed to go on, by name."""
        own = {"weights": self.weights, "trusted": self._trusted, "slower": torch.tensor(self.slower)}
        return own | in_parts(adam=adam_tensors(self._adam))

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Continue exactly where `tensors` were taken.

        Example:
            >>> one, other = (TrustedSteps(torch.zeros(1), lr=0.1) for _ in range(2))
            >>> one.take(torch.ones(1))
            >>> other.load(one.tensors())
            >>> torch.equal(one.weights, other.weights)
            True
        """
        with torch.no_grad():
            self._parameter.copy_(tensors["weights"])
        self._trusted = tensors["trusted"].clone()
        self.slower = float(tensors["slower"])
        load_adam(self._adam, part_of(tensors, "adam"))
