"""Six small problems and five ways to search them: what is replayed to see whether a change moved a single bit.

Only tensors, small networks and the public door are used, so that the problems outlive any reordering of the code.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

import metricopt as mo


class Problem(NamedTuple):
    """What `optimize` takes."""

    net: nn.Module
    loss: Callable[[Tensor, Tensor], Tensor]
    metric: Any
    train: tuple[Tensor, ...]
    val: tuple[Tensor, ...]
    keep: tuple[mo.Constraint, ...] = ()


def _trained(net: nn.Module, loss: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor) -> nn.Module:
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(60):
        optimizer.zero_grad()
        loss(net(x), y).backward()
        optimizer.step()
    return net.eval()


def _binary(logits: Tensor, targets: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(logits.squeeze(-1), targets.float())


def _rows(count: int, columns: int, seed: int, *, shift: float = 0.0) -> Tensor:
    return torch.randn(count, columns, generator=torch.Generator().manual_seed(seed)) + shift


def rare_positives() -> Problem:
    """F1 of a small network without normalisation: a threshold would do."""

    def labelled(seed: int) -> tuple[Tensor, Tensor]:
        x = _rows(600, 6, seed)
        return x, (x[:, 0] + x[:, 1] * x[:, 2] + 0.5 * _rows(600, 1, seed + 50)[:, 0] > 1.4).long()

    torch.manual_seed(1)
    train = labelled(0)
    net = _trained(nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1)), _binary, *train)
    return Problem(net, _binary, "f1", train, labelled(1))


def shifted_classes() -> Problem:
    """Macro F1 of four classes where the inputs have moved since training; FiLM after BatchNorm."""

    def labelled(seed: int, shift: float) -> tuple[Tensor, Tensor]:
        x = _rows(600, 8, seed)
        centres = _rows(4, 8, 77)
        return x + shift, (x @ centres.T + 0.5 * _rows(600, 4, seed + 50)).argmax(1)

    torch.manual_seed(2)
    train = labelled(0, 0.0)
    layers = (nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))
    net = _trained(nn.Sequential(*layers), functional.cross_entropy, *train)
    return Problem(net, functional.cross_entropy, "macro_f1", train, labelled(1, 0.6))


def ranked() -> Problem:
    """Area under the precision-recall curve, after training with noisy labels."""

    def labelled(seed: int, noise: float) -> tuple[Tensor, Tensor]:
        x = _rows(500, 5, seed)
        flips = torch.rand(500, generator=torch.Generator().manual_seed(seed + 9)) < noise
        return x, (x[:, 0] + x[:, 1].square() > 1.5).long() ^ flips.long()

    torch.manual_seed(3)
    train = labelled(0, 0.2)
    layers = (nn.Linear(5, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
    net = _trained(nn.Sequential(*layers), _binary, *train)
    return Problem(net, _binary, "aucpr", train, labelled(1, 0.0))


def worst_image_class() -> Problem:
    """Worst class's recall of a small ConvNet, while accuracy must not fall."""

    def labelled(seed: int) -> tuple[Tensor, Tensor]:
        y = torch.arange(400) % 3
        patterns = _rows(3, 64, 5).reshape(3, 1, 8, 8)
        return 0.4 * patterns[y] + _rows(400, 64, seed).reshape(400, 1, 8, 8), y

    torch.manual_seed(4)
    train = labelled(0)
    body = (nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(54, 3))
    net = _trained(nn.Sequential(*body), functional.cross_entropy, *train)
    keep = (mo.Constraint("accuracy", at_least=0.3),)
    return Problem(net, functional.cross_entropy, "worst_class_recall", train, labelled(1), keep)


def own_error() -> Problem:
    """A function of the user's own on the raw outputs of a regression network."""

    def labelled(seed: int) -> tuple[Tensor, Tensor]:
        x = _rows(400, 4, seed)
        return x, (x[:, 0] * x[:, 1] + 0.3 * _rows(400, 1, seed + 50)[:, 0])[:, None]

    def median_error(y_true: Any, prediction: Any) -> float:
        return float(abs(y_true - prediction).mean())

    torch.manual_seed(5)
    train = labelled(0)
    net = nn.Sequential(nn.Linear(4, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 1))
    net = _trained(net, functional.mse_loss, *train)
    metric = mo.Metric(median_error, on="logits", goal="min", bounds=(0.0, 10.0), name="mean error")
    return Problem(net, functional.mse_loss, metric, train, labelled(1))


def worst_group() -> Problem:
    """Accuracy of the worst group, with groups as the third part of the data."""

    def labelled(seed: int) -> tuple[Tensor, Tensor, Tensor]:
        x = _rows(600, 6, seed)
        group = torch.arange(600) % 3
        return x, ((x[:, 0] + (group - 1) * x[:, 1]) > 0).long(), group

    torch.manual_seed(6)
    train = labelled(0)
    layers = (nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))
    net = _trained(nn.Sequential(*layers), functional.cross_entropy, *train[:2])
    return Problem(net, functional.cross_entropy, "worst_group_accuracy", train, labelled(1))


PROBLEMS: dict[str, Callable[[], Problem]] = {
    build.__name__: build
    for build in (rare_positives, shifted_classes, ranked, worst_image_class, own_error, worst_group)
}
