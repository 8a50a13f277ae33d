"""The network as it would be had its BatchNorms seen other inputs: their statistics need neither labels nor steps."""

import copy
from collections.abc import Iterable

import torch
from torch import nn
from torch.nn import BatchNorm1d, BatchNorm2d, BatchNorm3d

from metricopt.core.tree import Call, Tree
from metricopt.core.tree import call as default_call


def with_statistics_of(net: nn.Module, batches: Iterable[Tree], *, call: Call = default_call) -> nn.Module:
    """A copy of `net` whose BatchNorms have the means and variances of these inputs.

    Where training and use have different inputs, as of images with noise, this undoes most of the difference
    (Nado et al. 2020, Schneider et al. 2020).

    Example:
        >>> net = nn.BatchNorm1d(1, affine=False).eval()
        >>> inputs = torch.tensor([[3.0], [5.0]])
        >>> moved = with_statistics_of(net, [inputs])
        >>> moved(inputs).squeeze(), net(inputs).squeeze()
        (tensor([-0.7071,  0.7071]), tensor([3.0000, 5.0000]))
    """
    net = copy.deepcopy(net).eval()
    for norm in _norms(net):
        norm.reset_running_stats()
        norm.momentum = None  # an average over all batches, each as important as the others
        norm.train()
    with torch.no_grad():
        for inputs in batches:
            call(net, inputs)
    return net.eval()


def has_statistics(net: nn.Module) -> bool:
    """Whether a network has BatchNorms that remember means and variances.

    Example:
        >>> has_statistics(nn.LayerNorm(3)), has_statistics(nn.BatchNorm1d(3))
        (False, True)
    """
    return bool(_norms(net))


def _norms(net: nn.Module) -> list[BatchNorm1d | BatchNorm2d | BatchNorm3d]:
    norms = [layer for layer in net.modules() if isinstance(layer, BatchNorm1d | BatchNorm2d | BatchNorm3d)]
    return [norm for norm in norms if norm.track_running_stats]
