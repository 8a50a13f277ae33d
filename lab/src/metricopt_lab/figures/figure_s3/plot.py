"""Figure S3 as pictures: curves of recall, and boxes on the images themselves."""

from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from metricopt_lab.cells import Record
from metricopt_lab.data.bccd import bccd, has_bccd
from metricopt_lab.problems.microscope_shifts import SHIFTS

_LOOKS = {"optimize": "tab:blue", "metricopt_pyramid": "tab:orange"}
_BEFORE, _AFTER = "#ff8c00", "#1e90ff"


def draw_recall(records: Sequence[Record], path: Path) -> None:
    """One panel a condition: recall of the proposals against the overlap asked for."""
    conditions = list(dict.fromkeys(record["data"] for record in records))
    figure = _figure((3.6 * len(conditions) + 1.2, 3.4))
    panels = figure.subplots(1, len(conditions), sharey=True, squeeze=False)[0]
    for axes, condition in zip(panels, conditions, strict=True):
        some = [record for record in records if record["data"] == condition]
        axes.plot(some[0]["overlaps"], _mean(some, 0), "o--", color="tab:gray", label="frozen")
        for way in dict.fromkeys(record["method"] for record in some):
            mine = [record for record in some if record["method"] == way]
            axes.plot(mine[0]["overlaps"], _mean(mine, 1), "o-", color=_LOOKS[way], label=way.replace("_", ", "))
        axes.set_title(condition.replace("_", " "), fontsize=10)
        axes.set_xlabel("overlap (IoU)", fontsize=9)
        axes.set_ylim(0, 1.02)
    panels[0].set_ylabel("recall of 150 proposals", fontsize=9)
    panels[-1].legend(fontsize=8)
    figure.savefig(path, dpi=110)


def draw_pictures(records: Sequence[Record], path: Path) -> None:
    """Proposals and detections before and after on the same images; nothing where the images are not."""
    first = next((record for record in records if record["method"] == "optimize"), records[0])
    if not has_bccd() or first["data"] not in SHIFTS:
        return
    figure = _figure((14, 5.4))
    grid = figure.subplots(len(first["pictures"]), 4, squeeze=False)
    for line, picture in zip(grid, first["pictures"], strict=True):
        pixels = _pixels(picture["name"], first["data"])
        for place, kind in enumerate(("proposals", "detections")):
            for after, (word, colour) in enumerate((("before", _BEFORE), ("after", _AFTER))):
                axes = line[2 * place + after]
                axes.imshow(pixels)
                _rectangles(axes, picture["truth"], "white", 0.8)
                _rectangles(axes, picture[kind][after], colour, 0.8 if kind == "proposals" else 1.8)
                axes.set_title(f"{kind} {word}", fontsize=9)
                axes.set_axis_off()
    figure.savefig(path, dpi=90)


def _figure(size: tuple[float, float]) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _mean(records: Sequence[Record], which: int) -> list[float]:
    return [mean(column) for column in zip(*(record["recall"][which] for record in records), strict=True)]


def _pixels(name: str, condition: str) -> Any:
    """The image as the detector was given it; noise is another draw, of the same strength."""
    for split in ("val", "test"):
        found = bccd(split)
        if name in found.names:
            image = found.images[found.names.index(name)].float() / 255
            return SHIFTS[condition](image[None])[0].permute(1, 2, 0).numpy()
    raise KeyError(name)


def _rectangles(axes: Any, boxes: Sequence[Sequence[float]], colour: str, width: float) -> None:
    from matplotlib.patches import Rectangle

    for x0, y0, x1, y1 in boxes:
        axes.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, edgecolor=colour, linewidth=width))
