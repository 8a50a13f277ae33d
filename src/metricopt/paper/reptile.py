"""Reptile's meta-update of Algorithm 1: copies of the value network learn, and it moves towards them."""

import torch

from metricopt.paper.network import ValueNetwork


def stacked_copies(network: ValueNetwork, copies: int) -> ValueNetwork:
    """So many copies of a one-member network side by side: one for each task of a meta-batch.

    Example:
        >>> network = ValueNetwork(3, generator=torch.Generator().manual_seed(0))
        >>> stacked_copies(network, 4).each(torch.ones(2, 3)).shape
        torch.Size([4, 2])
    """
    stack = ValueNetwork(
        network.dim, members=copies, hidden=network.hidden, norm=network.norm, generator=torch.Generator()
    )
    state = {}
    for name, tensor in network.state_dict().items():
        of_members = tensor.dim() == 3
        state[name] = tensor.repeat(copies, 1, 1) if of_members else tensor.clone()
    stack.load_state_dict(state)
    return stack


@torch.no_grad()
def move_towards(network: ValueNetwork, copies: ValueNetwork, rate: float) -> None:
    """w <- w + rate (mean of the trained copies' w - w), statistics of BatchNorm included.

    Example:
        >>> network = ValueNetwork(3, generator=torch.Generator().manual_seed(0))
        >>> copies = stacked_copies(network, 2)
        >>> with torch.no_grad():
        ...     _ = copies.biases[0].add_(1.0)
        >>> before = network.biases[0].clone()
        >>> move_towards(network, copies, rate=0.25)
        >>> torch.allclose(network.biases[0], before + 0.25)
        True
    """
    learnt = copies.state_dict()
    for name, tensor in network.state_dict().items():
        if tensor.dim() == 3:  # (members, ...): weights and statistics, not the scales of inputs and targets
            tensor.lerp_(learnt[name].mean(0, keepdim=True), rate)
