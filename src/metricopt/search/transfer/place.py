"""What a value function is about: metric, outputs, layout of phi and rows; it says whether it serves elsewhere."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import torch
from torch import Tensor

from metricopt.adapters import AdaptedModel
from metricopt.core.errors import FileFormatError
from metricopt.data.dataset import hashed
from metricopt.task.supervised import SupervisedTask

TOLD = "told"
"""What the metric of a study is called: nobody knows which one it is."""

_ROWS = 64  # by whose inputs data are recognised
_OF_CLASSES = ("labels", "scores", "logits")
_MOST_CLASSES = 100  # confusion matrices of more take more room than they are worth


@dataclass(frozen=True)
class Place:
    """Where a search was, or is to be.

    Attributes:
        metric: Its name.
        goal: "max" or "min".
        on: What it looks at.
        layout: What phi modulates, in words; equal for vectors that mean the same, or have the same size.
        outputs: Numbers a row of the network's output has; 0 where no tensor can be read from it.
        rows: A hash of the rows that are looked at.
        against: What soft confusion matrices compare with: "truth", or the "original" where labels are hidden; empty
            where outputs are not classes, or too many.

    Example:
        >>> Place("f1", "max", "labels", "FiLM of 32, seed 0", 3, "a1", "original").goal
        'max'
    """

    metric: str
    goal: str
    on: str
    layout: str
    outputs: int
    rows: str
    against: str = ""

    @property
    def facts(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def place_from(facts: Mapping[str, Any]) -> Place:
    """The place that facts of a file describe.

    Example:
        >>> place_from({"metric": "f1"})
        Traceback (most recent call last):
        metricopt.core.errors.FileFormatError: the value function says goal=None; expected text: save it again
    """
    for each in fields(Place):
        kind, found = (int, facts.get(each.name)) if each.name == "outputs" else (str, facts.get(each.name))
        if not isinstance(found, kind) or isinstance(found, bool):
            wanted = "a number" if kind is int else "text"
            raise FileFormatError(
                f"the value function says {each.name}={str(found)[:60]}; expected {wanted}: save it again"
            )
    return Place(**{each.name: facts[each.name] for each in fields(Place)})


def place_of(task: SupervisedTask, *, rows: int) -> Place:
    """The place of a task whose outputs are looked at on so many rows.

    Example:
        >>> from metricopt.adapters import OutputAffine, adapt
        >>> from metricopt.data.dataset import Examples
        >>> from metricopt.metrics import mcr
        >>> data = Examples(torch.zeros(9, 3), torch.arange(9) % 2)
        >>> task = SupervisedTask(adapt(torch.nn.Linear(3, 2), OutputAffine()), metric=mcr(), train=data, search=data)
        >>> place_of(task, rows=5).layout, place_of(task, rows=5).outputs
        ('OutputAffine of 4, seed 0', 2)
    """
    shown = task.probe().shown(torch.zeros(1, task.dim), rows=rows)[0]
    readable = shown.shape != (1, task.dim)
    classes = readable and task.metric.on in _OF_CLASSES and shown.shape[1] <= _MOST_CLASSES
    against = "" if not classes else "original" if _truth(task) is None else "truth"
    return Place(
        metric=task.metric.name,
        goal=task.metric.goal,
        on=task.metric.on,
        layout=layout_of(task.model),
        outputs=shown.shape[1] if readable else 0,
        rows=f"{hashed(task.search.inputs_at(slice(0, _ROWS)))} {len(task.search)} {len(shown)}",
        against=against,
    )


def layout_of(model: AdaptedModel) -> str:
    """The parts of an adapter with their sizes, and the seed that drew their maps.

    Example:
        >>> from metricopt.adapters import FiLM, OutputAffine, adapt
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
        >>> layout_of(adapt(net, FiLM(dim=8) + OutputAffine(), seed=1, example=torch.zeros(2, 4)))
        'FiLM of 8 + OutputAffine of 6, seed 1'
    """
    sizes = [part.stop - part.start for _, part in model.parts()]
    names = [type(part).__name__ for part in model.spec.parts]
    return f"{' + '.join(f'{name} of {size}' for name, size in zip(names, sizes, strict=True))}, seed {model.seed}"


def reference_of(task: SupervisedTask, outputs: Tensor, *, rows: int) -> Tensor:
    """The class (n,) that each of so many rows looked at is compared with: the true one where labels are visible.

    Otherwise the one that the original, whose outputs (n, columns) are given, says.
    """
    truth = _truth(task)
    if truth is not None:
        return truth[task.probe().rows_shown(rows=rows).to(truth.device)].cpu()
    return (outputs[:, 0] > 0).long() if outputs.shape[1] == 1 else outputs.argmax(1)


def _truth(task: SupervisedTask) -> Tensor | None:
    return task.search.classes if task.labels_visible else None
