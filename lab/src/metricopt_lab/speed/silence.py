"""Figure (h): how long a user of a large network waits for the first answer, and for any sign of life."""

import time
import warnings
from itertools import pairwise
from typing import Any

import torch

import metricopt as mo
from metricopt.core.seeding import stream
from metricopt.metrics.metric import Metric
from metricopt.run.events import Event
from metricopt_lab.speed.figures import FIGURES, Effort, Figure
from metricopt_lab.speed.large_networks import Detector, SentenceTransformer, detection_loss, resnet18

_NOTE = "computing time on one core, events of one run of optimize with 200 queries, stopped after {seconds:.0f} s"


class _EnoughError(Exception):
    """The run has been listened to for long enough."""


@FIGURES.add("h")
def silence(effort: Effort) -> list[Figure]:
    """Seconds to the first answer and the longest silence of three networks, as `optimize` comes.

    Example:
        >>> [figure.target for figure in silence(Effort(repeats=1, quick=True))]
        [15.0, 5.0, 15.0, 5.0, 15.0, 5.0]
    """
    seconds = effort.of(90.0, 2.0)
    found = []
    for name, make in {"MiniLM's size": _transformer, "ResNet-18": _resnet, "a detector": _detector}.items():
        first, longest = heard(make(effort), seconds=seconds)
        note = _NOTE.format(seconds=seconds)
        found.append(Figure("h", f"seconds to the first answer, {name}", first, first, first, 1, 15.0, note=note))
        found.append(Figure("h", f"longest silence in seconds, {name}", longest, longest, longest, 1, 5.0, note=note))
    return found


def heard(settings: dict[str, Any], *, seconds: float) -> tuple[float, float]:
    """Seconds until the first answer, and the longest time without an event, of a run that is stopped in the end.

    By computing time with one thread, which others on the machine cannot lengthen and a second core can only shorten.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    began = time.process_time()
    moments: list[float] = [began]
    first: list[float] = []

    def watch(event: Event) -> None:
        now = time.process_time()
        moments.append(now)
        if event["event"] == "query" and not first:
            first.append(now - began)
        if now - began > seconds and first:
            raise _EnoughError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mo.optimize(**settings, queries=200, progress=False, watch=[watch])
    except _EnoughError:
        pass
    finally:
        torch.set_num_threads(threads)
    return first[0], max(after - before for before, after in pairwise(moments))


def _transformer(effort: Effort) -> dict[str, Any]:
    draw = stream(0, "tokens")
    torch.manual_seed(0)
    net = SentenceTransformer(*effort.of((6, 30_522), (1, 60)))
    rows = effort.of(600, 60)
    tokens = torch.randint(effort.of(30_522, 60), (rows, effort.of(64, 8)), generator=draw)
    classes = (tokens[:, 0] % 2).long()
    half = rows // 2
    return {
        "net": net,
        "metric": "f1",
        "train": (tokens[:half], classes[:half]),
        "val": (tokens[half:], classes[half:]),
    }


def _resnet(effort: Effort) -> dict[str, Any]:
    torch.manual_seed(0)
    rows = effort.of(1200, 60)
    images = torch.randn(rows, 3, effort.of(32, 8), effort.of(32, 8), generator=stream(0, "images"))
    classes, half = torch.arange(rows) % 10, rows // 2
    return {
        "net": resnet18(),
        "metric": "macro_f1",
        "train": (images[:half], classes[:half]),
        "val": (images[half:], classes[half:]),
    }


def _detector(effort: Effort) -> dict[str, Any]:
    torch.manual_seed(0)
    rows, draw = effort.of(400, 60), stream(0, "scenes")
    size = effort.of(128, 64)
    images = [torch.randn(3, size, size, generator=draw) for _ in range(rows)]
    truth = [{"boxes": torch.rand(4, generator=draw), "object": torch.tensor(float(row % 2))} for row in range(rows)]
    half = rows // 2
    return {
        "net": Detector(),
        "loss": detection_loss,
        "metric": _agreement(),
        "train": (images[:half], truth[:half]),
        "val": (images[half:], truth[half:]),
    }


def _agreement() -> Metric:
    def share(truth: Any, found: Any) -> float:
        right = [
            (float(one["scores"].mean()) > 0.5) == bool(other["object"])
            for one, other in zip(found, truth, strict=True)
        ]
        return sum(right) / len(right)

    return mo.Metric(share, on="outputs", goal="max", name="objects found")
