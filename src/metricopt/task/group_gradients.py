"""Gradients of the loss on groups of examples: what trade-offs between kinds of examples look like in phi."""

import torch
from torch import Tensor

from metricopt.adapters.device import on_model
from metricopt.adapters.graph.cache import PrefixCache
from metricopt.data.dataset import Examples
from metricopt.task.base import Loss

Rows = tuple[Examples, Tensor]
"""Data and the numbers of some of its rows, (n,)."""


def loss_gradient(cache: PrefixCache, loss: Loss, phi: Tensor, rows: Rows) -> Tensor:
    """Gradient of the loss on some rows at one phi (dim,), (dim,).

    Example:
        >>> from metricopt.adapters import OutputAffine, adapt
        >>> data = Examples(torch.ones(4, 2), torch.arange(4) % 2)
        >>> cache = PrefixCache(adapt(torch.nn.Linear(2, 2), OutputAffine(scale=False)), probe=data.inputs)
        >>> loss = torch.nn.functional.cross_entropy
        >>> [round(float(g), 4) for g in loss_gradient(cache, loss, torch.tensor([50.0, 0.0]), (data, torch.arange(4)))]
        [0.5, -0.5]
    """
    data, index = rows
    leaf = phi.detach().clone().requires_grad_()
    outputs = cache.outputs(leaf[None], cache.gather([rows]))[0]
    return torch.autograd.grad(loss(outputs, on_model(cache.model, data.targets[index])), leaf)[0]


def loss_bands(cache: PrefixCache, loss: Loss, phi: Tensor, rows: Rows, *, bands: int, at_once: int) -> Tensor:
    """Group code of each row, (n,): its class, and its third (if `bands` is 3) of that class by loss at phi (dim,).

    Example:
        >>> from metricopt.adapters import OutputAffine, adapt
        >>> data = Examples(torch.arange(4.0)[:, None], torch.zeros(4, dtype=torch.long))
        >>> cache = PrefixCache(adapt(torch.nn.Linear(1, 1), OutputAffine()), probe=data.inputs)
        >>> order = lambda outputs, targets: outputs.square().mean()
        >>> codes = loss_bands(cache, order, torch.zeros(2), (data, torch.arange(4)), bands=2, at_once=64)
        >>> sorted(codes.tolist())
        [0, 0, 1, 1]
    """
    data, index = rows
    targets = data.targets[index]
    outputs = cache.chunked(phi[None], cache.gather([rows]), at_once=at_once)[0]
    # On the model's device: the loss may have numbers of its own there, such as weights of classes.
    there = on_model(cache.model, outputs), on_model(cache.model, targets)
    losses = torch.vmap(lambda o, t: loss(o[None], t[None]))(*there).cpu()
    _, classes = torch.unique(targets, return_inverse=True)
    if targets.dim() > 1 or int(classes.max()) >= 20:
        classes = torch.zeros(len(index), dtype=torch.long)
    code = torch.zeros(len(index), dtype=torch.long)
    for c in range(int(classes.max()) + 1):
        mine = classes == c
        rank = torch.argsort(torch.argsort(losses[mine]))
        code[mine] = c * bands + rank * bands // max(int(mine.sum()), 1)
    return code


def mean_loss(loss: Loss, outputs: Tensor, targets: Tensor, *, by_class: bool) -> float:
    """The loss of outputs (n, ...), or the mean of the losses of the classes.

    Example:
        >>> size, outputs = lambda outputs, targets: outputs.mean(), torch.tensor([0.0, 0.0, 0.0, 4.0])
        >>> [mean_loss(size, outputs, torch.tensor([0, 0, 0, 1]), by_class=flag) for flag in (False, True)]
        [1.0, 2.0]
    """
    code = targets if by_class else torch.zeros(len(targets), dtype=torch.long, device=targets.device)
    groups = [code == one for one in torch.unique(code)]
    return float(torch.stack([loss(outputs[rows], targets[rows]) for rows in groups]).mean())
