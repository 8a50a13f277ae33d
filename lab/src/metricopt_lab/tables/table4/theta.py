"""Training all weights for as many steps as the rivals of Table 4 have, and rounds of it between MetricOpt's."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.optim import Optimizer

from metricopt.core.seeding import derived_seed
from metricopt.data.dataset import Examples
from metricopt.data.sampling import batch_stream
from metricopt_lab.optimizers.power_sign import PowerSign
from metricopt_lab.problems.augmentation import random_views

Make = Callable[[Any, int], Optimizer]
"""From parameters and the number of steps to an optimizer."""


def rmsprop(parameters: Any, steps: int) -> Optimizer:
    """The paper's baseline."""
    del steps
    return torch.optim.RMSprop(parameters, lr=1e-4)


def power_sign(parameters: Any, steps: int) -> Optimizer:
    """PowerSign-cd: what Bello et al. found on CIFAR-10 is the rule itself, so that transferring is using it."""
    return PowerSign(parameters, lr=3e-3, steps=steps)


def momentum(parameters: Any, steps: int) -> Optimizer:
    """SGD, for theta between two runs."""
    del steps
    return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)


def trained(
    net: nn.Module, train: Examples, make: Make, *, steps: int, batch_size: int, seed: int
) -> nn.Module:  # fmt: skip
    """A copy of a network after so many steps of cross-entropy on all weights, in eval mode.

    Images are mirrored and shifted as in pre-training: without, these steps only learn by heart. BatchNorm keeps the
    statistics it has: a few hundred steps at small rates would only blur them.

    Example:
        >>> bright = torch.tensor([1, 0]).repeat(20)
        >>> data = Examples(bright.view(40, 1, 1, 1).expand(40, 1, 8, 8).float(), bright)
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(64, 2))
        >>> after = trained(net, data, momentum, steps=50, batch_size=20, seed=0)
        >>> before, now = (functional.cross_entropy(each(data.inputs), data.targets) for each in (net, after))
        >>> bool(now < before)
        True
    """
    net = copy.deepcopy(net).eval()
    for parameter in net.parameters():
        parameter.requires_grad_()
    optimizer = make(list(net.parameters()), steps)
    draw = torch.Generator().manual_seed(derived_seed(seed, "table4", "theta"))
    batches = batch_stream(train, 1, batch_size=batch_size, sampling="plain", generator=draw)
    for _, (inputs, targets) in zip(range(steps), batches, strict=False):
        images = random_views(torch.arange(len(inputs[0])), draw).of(inputs[0])
        optimizer.zero_grad()
        functional.cross_entropy(net(images), targets[0]).backward()
        optimizer.step()
    return net.eval()
