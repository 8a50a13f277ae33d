"""The value function of Algorithm S1: learnt on the fly, from the paths of the optimizer that is being trained."""

from typing import final

import torch
from torch import Tensor

from metricopt.core.records import LabelledTrajectory
from metricopt.paper.learned.named_tensors import adam_tensors, in_parts, load_adam, part_of
from metricopt.paper.network import ValueNetwork
from metricopt.paper.reptile import move_towards, stacked_copies
from metricopt.paper.training import Training, loss_of_members, mixed_rows
from metricopt.paper.value_function import ValueFunction

_SMALLEST = 1e-12  # of a variance, whose root has no finite derivative at zero
_KEPT = 20  # steps of a path that are remembered; neighbours say nearly the same


@final
class OnlineValue:
    """A value network that learns from each new batch of paths and, offline, from those before it.

    With the scheme "offline" rows of all paths so far are mixed; with "reptile" each new path teaches a copy of its
    own, as in the paper, and nothing is remembered. Inputs and targets are standardised by the first batch.

    Args:
        dim: Size of phi.
        training: Scheme, norm and rates; `steps` is a batch's own.
        generator: Source of the first weights.

    Example:
        >>> value = OnlineValue(2, Training(steps=50), generator=torch.Generator().manual_seed(0))
        >>> phi = torch.randn(8, 20, 2, generator=torch.Generator().manual_seed(1))
        >>> paths = LabelledTrajectory(phi, phi[..., 0].sigmoid(), torch.full((8, 20), 0.01))
        >>> value.learn(paths, rate=1.0, generator=torch.Generator().manual_seed(2))
        >>> low, high = value.network(torch.tensor([[-1.0, 0.0], [1.0, 0.0]]))
        >>> bool(low < high)
        True
    """

    def __init__(self, dim: int, training: Training, *, generator: torch.Generator) -> None:
        members = training.members if training.scheme == "offline" else 1
        self.training = training
        self.network = ValueNetwork(dim, members=members, norm=training.norm, generator=generator)
        self._adam = torch.optim.Adam(self.network.parameters(), lr=training.lr)
        self._memory: LabelledTrajectory | None = None
        self._rest()

    @property
    def ready(self) -> bool:
        """Whether it has learnt from anything."""
        return self._memory is not None

    def learn(self, paths: LabelledTrajectory, *, rate: float, generator: torch.Generator) -> None:
        """Learn from new paths; `rate` is Reptile's, 1 at first and 0 in the end."""
        first = self._memory is None
        self._remember(paths)
        if first and self.training.standardise:
            self.network.standardise(paths.phi.flatten(0, 1), paths.mean.flatten())
        self.network.train().requires_grad_(True)
        if self.training.scheme == "offline":
            self._mix(generator)
        else:
            self._reptile(paths, rate)
        self._rest()

    def _mix(self, generator: torch.Generator) -> None:
        assert self._memory is not None
        for phi, mean, std in mixed_rows(self._memory, self.training, self.network.members, generator):
            self._adam.zero_grad()
            loss_of_members(self.network, phi, mean, std, training=self.training).sum().backward()
            self._adam.step()

    def _reptile(self, paths: LabelledTrajectory, rate: float) -> None:
        copies = stacked_copies(self.network, len(paths.phi)).train()
        descent = torch.optim.SGD(copies.parameters(), lr=self.training.inner_lr)
        for _ in range(self.training.inner_steps):
            descent.zero_grad()
            loss_of_members(copies, paths.phi, paths.mean, paths.std, training=self.training).sum().backward()
            descent.step()
        move_towards(self.network, copies, rate)

    def _rest(self) -> None:
        # In eval mode no row influences another, and without gradients of its own the network is a plain function.
        self.network.eval().requires_grad_(False)
        self.network.zero_grad()

    def _remember(self, paths: LabelledTrajectory) -> None:
        kept = torch.linspace(0, paths.mean.shape[1] - 1, _KEPT, dtype=torch.float64).round().long()
        new = LabelledTrajectory(paths.phi[:, kept], paths.mean[:, kept], paths.std[:, kept])
        old = self._memory
        if old is None or self.training.scheme == "reptile":
            self._memory = new
            return
        pairs = zip((old.phi, old.mean, old.std), (new.phi, new.mean, new.std), strict=True)
        self._memory = LabelledTrajectory(*(torch.cat(pair) for pair in pairs))

    def tensors(self) -> dict[str, Tensor]:
        """All that it has learnt and remembers, by name."""
        memory = self._memory
        kept = {} if memory is None else {name: getattr(memory, name) for name in ("phi", "mean", "std")}
        return in_parts(network=self.network.state_dict(), adam=adam_tensors(self._adam), memory=kept)

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Continue exactly where `tensors` were taken."""
        self.network.load_state_dict(part_of(tensors, "network"))
        load_adam(self._adam, part_of(tensors, "adam"))
        memory = part_of(tensors, "memory")
        self._memory = LabelledTrajectory(**memory) if memory else None


def cautious(network: ValueNetwork, caution: float) -> ValueFunction:
    """The mean of an ensemble and so many of its standard deviations: dear where nothing was observed.

    Example:
        >>> network = ValueNetwork(2, members=3, norm="none", generator=torch.Generator().manual_seed(0)).eval()
        >>> phi = torch.ones(1, 2)
        >>> bool(cautious(network, 1.0)(phi) > network(phi)), cautious(network, 0.0) is network
        (True, True)
    """
    if not caution or network.members == 1:
        return network

    def value(phi: Tensor) -> Tensor:
        each = network.each(phi)  # (members, n)
        return each.mean(0) + caution * (each.var(0) + _SMALLEST).sqrt()

    return value
