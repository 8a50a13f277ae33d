"""The training loss on the straight line through the original and a proposal: it costs no metric query."""

import torch
from torch import Tensor

from metricopt.data.dataset import Batch
from metricopt.task.supervised import SupervisedTask

SHARES = (-0.2, -0.1, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2)
"""Places on the line: 0 is the original, 1 the proposal."""

_LEAST = 8  # rows, however slow


def loss_line(task: SupervisedTask, phi: Tensor, *, rows: int = 1024) -> dict[str, list[float]]:
    """`shares` of the way to phi (dim,) and the `loss` there, on evenly spread rows of the training data.

    Example:
        >>> from metricopt.adapters import OutputAffine, adapt
        >>> from metricopt.data.dataset import Examples
        >>> from metricopt.metrics import mcr
        >>> data = Examples(torch.randn(40, 3, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 2)
        >>> model, loss = adapt(torch.nn.Linear(3, 2), OutputAffine()), torch.nn.functional.cross_entropy
        >>> task = SupervisedTask(model, loss=loss, metric=mcr(), train=data, search=data)
        >>> line = loss_line(task, torch.ones(task.dim))
        >>> len(line["loss"]) == len(line["shares"])
        True
    """
    if task.most_rows is not None or task.model.gives_list:  # a slow network, or a detector: it is only a picture
        rows = min(rows, max(_LEAST, (task.most_rows or 0) // len(SHARES)))
    # The first rows of data sorted by class would be of one class.
    index = torch.arange(0, len(task.train), max(1, -(-len(task.train) // rows)))
    batches = [task.train.batch(some, seed=0) for some in index.split(rows if task.simple else task.batch_size)]
    with torch.no_grad():
        losses = [_mean_loss(task, share * phi, batches) for share in SHARES]
    return {"shares": list(SHARES), "loss": losses}


def _mean_loss(task: SupervisedTask, phi: Tensor, batches: list[Batch]) -> float:
    task.beat()
    return sum(float(task.loss_rule(task.model, phi, batch)) for batch in batches) / len(batches)
