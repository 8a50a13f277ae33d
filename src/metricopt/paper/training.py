"""How a value network is trained: the paper's Reptile over tasks, or offline on all trajectories mixed."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from metricopt.core.records import LabelledTrajectory
from metricopt.core.registry import one_of
from metricopt.paper.equation_2_objective import value_loss
from metricopt.paper.network import Norm, ValueNetwork
from metricopt.paper.reptile import move_towards, stacked_copies


@dataclass(frozen=True)
class Training:
    """How to fit a value network.

    Attributes:
        scheme: "offline" mixes the rows of all trajectories in each batch; "reptile" is the paper's.
        norm: Normalisation of the network; the paper's is "batch".
        members: Size of the ensemble ("offline" only).
        standardise: Standardise phi and targets first; the paper does not.
        gamma: Weight of L_regress in Eq. 2.
        ordinal: Weight of L_oe in Eq. 2; 0 leaves it out.
        steps: Gradient steps ("offline").
        rows: Rows a batch ("offline").
        lr: Adam's rate ("offline").
        inner_lr: SGD's rate on one task (alpha, "reptile").
        inner_steps: SGD steps on one task ("reptile"); the paper leaves it open.
        meta_batch: Tasks a meta-update averages ("reptile"); the paper takes 1.
        meta_updates: How many there are at least ("reptile"): fewer tasks are gone through again, which asks nothing.

    Example:
        >>> Training(ordinal=0.0).scheme, PAPER.scheme, PAPER.norm
        ('offline', 'reptile', 'batch')
    """

    scheme: Literal["offline", "reptile"] = "offline"
    norm: Norm = "none"
    members: int = 5
    standardise: bool = True
    gamma: float = 10.0
    ordinal: float = 1.0
    steps: int = 400
    rows: int = 96
    lr: float = 0.005
    inner_lr: float = 0.005
    inner_steps: int = 10
    meta_batch: int = 1
    meta_updates: int = 1

    def __post_init__(self) -> None:
        one_of(self.scheme, ("offline", "reptile"), what="scheme")
        one_of(self.norm, get_args(Norm), what="norm")
        whole = ("members", "steps", "rows", "inner_steps", "meta_batch", "meta_updates")
        counts = {name: getattr(self, name) for name in whole}
        wrong = next((name for name, count in counts.items() if count < 1), None)
        if wrong is not None:
            raise ValueError(f"{wrong} is {counts[wrong]}; expected at least 1")

    def updates(self, tasks: int) -> int:
        """Steps that the value network takes: gradient steps, or Reptile's meta-updates in rounds of all tasks.

        Example:
            >>> PAPER.updates(64), PAPER.updates(1000)
            (512, 1000)
        """
        if self.scheme == "offline":
            return self.steps
        a_round = math.ceil(tasks / self.meta_batch)
        return a_round * math.ceil(self.meta_updates / a_round)


PAPER = Training(scheme="reptile", norm="batch", members=1, standardise=False, meta_updates=500)
"""As literal as the paper allows. It has 500 tasks and more, so as many meta-updates, each about a task of its own."""


Beat = Callable[[int], None]
"""Told of each step."""


def fit(
    labelled: LabelledTrajectory, training: Training, *, generator: torch.Generator, beat: Beat = lambda _: None
) -> ValueNetwork:
    """A value network trained on labelled trajectories, in eval mode; `beat` is told of each of its `updates`.

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> phi = torch.randn(8, 20, 2, generator=generator)
        >>> labelled = LabelledTrajectory(phi, phi[..., 0].sigmoid(), torch.full((8, 20), 0.01))
        >>> value = fit(labelled, Training(steps=50), generator=generator)
        >>> bool(value(torch.tensor([[1.0, 0.0]])) > value(torch.tensor([[-1.0, 0.0]])))
        True
    """
    members = training.members if training.scheme == "offline" else 1
    network = ValueNetwork(labelled.phi.shape[-1], members=members, norm=training.norm, generator=generator)
    if training.standardise:
        network.standardise(labelled.phi.flatten(0, 1), labelled.mean.flatten())
    if training.scheme == "offline":
        _fit_offline(network, labelled, training, generator=generator, beat=beat)
    else:
        _fit_reptile(network, labelled, training, beat=beat)
    # BatchNorm in train mode would mix the perturbed copies: f(phi + delta) would depend on the other rows,
    # and the antithetic difference would no longer be about delta.
    return network.eval().requires_grad_(False)


def _fit_offline(
    network: ValueNetwork,
    labelled: LabelledTrajectory,
    training: Training,
    *,
    generator: torch.Generator,
    beat: Beat,
) -> None:
    optimizer = torch.optim.Adam(network.parameters(), lr=training.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, training.steps)
    network.train()
    for phi, mean, std in mixed_rows(labelled, training, network.members, generator):
        optimizer.zero_grad()
        loss_of_members(network, phi, mean, std, training=training).sum().backward()
        optimizer.step()
        schedule.step()
        beat(1)


def mixed_rows(
    labelled: LabelledTrajectory, training: Training, members: int, generator: torch.Generator
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Batches (members, rows, ...) drawn from all tasks at once; each member has tasks of its own (a bootstrap).

    Example:
        >>> labelled = LabelledTrajectory(torch.zeros(3, 4, 2), torch.zeros(3, 4), torch.ones(3, 4))
        >>> phi, mean, std = next(mixed_rows(labelled, Training(rows=6), 5, torch.Generator().manual_seed(0)))
        >>> phi.shape, mean.shape
        (torch.Size([5, 6, 2]), torch.Size([5, 6]))
    """
    tasks, steps = labelled.mean.shape
    own = torch.randint(tasks, (members, tasks), generator=generator) if members > 1 else torch.arange(tasks)[None]
    for _ in range(training.steps):
        pick = torch.randint(tasks, (members, training.rows), generator=generator)
        task = torch.gather(own, 1, pick)
        step = torch.randint(steps, (members, training.rows), generator=generator)
        yield labelled.phi[task, step], labelled.mean[task, step], labelled.std[task, step]


def _fit_reptile(network: ValueNetwork, labelled: LabelledTrajectory, training: Training, *, beat: Beat) -> None:
    tasks = len(labelled.phi)
    starts, updates = range(0, tasks, training.meta_batch), training.updates(tasks)
    for iteration in range(updates):
        start = starts[iteration % len(starts)]
        some = labelled.rows(torch.arange(start, min(start + training.meta_batch, tasks)))
        copies = stacked_copies(network, len(some.phi)).train()
        optimizer = torch.optim.SGD(copies.parameters(), lr=training.inner_lr)
        for _ in range(training.inner_steps):
            optimizer.zero_grad()
            loss_of_members(copies, some.phi, some.mean, some.std, training=training).sum().backward()
            optimizer.step()
        move_towards(network, copies, rate=1 - iteration / updates)  # eta: 1 -> 0 linearly
        beat(1)


def loss_of_members(network: ValueNetwork, phi: Tensor, mean: Tensor, std: Tensor, *, training: Training) -> Tensor:
    """L_v of each member on its own rows, (members,), in the units of standardised targets.

    Example:
        >>> network = ValueNetwork(2, members=3, norm="none", generator=torch.Generator().manual_seed(0))
        >>> phi, mean = torch.zeros(3, 4, 2), torch.zeros(3, 4)
        >>> loss_of_members(network, phi, mean, mean + 1, training=Training()).shape
        torch.Size([3])
    """
    embedding = network.embed(phi)
    values = network.members_from_embedding(embedding)
    scale = network.target_std
    return value_loss(
        (values - network.target_mean) / scale,
        embedding,
        (mean - network.target_mean) / scale,
        std / scale,
        gamma=training.gamma,
        ordinal=training.ordinal,
    )
