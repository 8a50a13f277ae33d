"""Small problems with something to learn from validation rows."""

from typing import Any

import torch
from torch import Tensor, nn

from metricopt.adapters import OutputAffine, WeightDirections, adapt
from metricopt.crossfit import CrossFit
from metricopt.crossfit.learner import Learner
from metricopt.data.dataset import Examples
from metricopt.metrics import as_metric
from metricopt.task.out_of_fold import OutOfFoldTask

SMALL = CrossFit(folds=3, epochs=4, batch=64, rates=(1e-2,)).fitting(classes=True, ranks=False)


def draw(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rows(count: int, seed: int, *, turned: bool, classes: int = 3) -> tuple[Tensor, Tensor]:
    """Classes by direction; `turned` where the network is used, not where it was trained."""
    x = torch.randn(count, 4, generator=draw(seed))
    seen = x.roll(1, 1) if turned else x
    return x, seen[:, :classes].argmax(1)


def network(classes: int = 3, *, steps: int = 150) -> nn.Module:
    torch.manual_seed(0)
    # Without a bias before BatchNorm: its gradient would be rounding alone, which Adam blows up to full steps.
    first = nn.Linear(4, 16, bias=False)
    net = nn.Sequential(first, nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, classes))
    x, y = rows(600, 0, turned=False, classes=classes)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    return net.eval()


def task(
    metric: Any = "accuracy",
    *,
    net: nn.Module | None = None,
    settings: CrossFit = SMALL,
    targets: Tensor | None = None,
) -> OutOfFoldTask:
    train, val = Examples(*rows(400, 1, turned=False)), Examples(*rows(300, 2, turned=True))
    val = val if targets is None else Examples(val.inputs, targets)
    adapter = WeightDirections(len(settings.kinds)) + OutputAffine(scale=False)
    model = adapt(net or network(), adapter, example=train.inputs[:2])
    return OutOfFoldTask(model, metric=as_metric(metric), train=train, search=val, labels_visible=True)


def learner(metric: Any = "accuracy", *, settings: CrossFit = SMALL, **more: Any) -> Learner:
    return Learner(task(metric, settings=settings), settings, **more)
