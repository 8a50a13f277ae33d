"""Gains in AP50 of each method under each condition, with intervals."""

from collections.abc import Sequence
from pathlib import Path

from metricopt_lab.cells import Record
from metricopt_lab.tables.table6.gains import gain_of
from metricopt_lab.tables.table6.methods import METHODS, OURS


def draw_gains(records: Sequence[Record], path: Path) -> None:
    """One panel a condition: mean gain over the frozen detector and the interval of resampled images."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    measured = [record for record in records if record["method"] != "frozen"]
    conditions = list(dict.fromkeys(record["data"] for record in measured or records))
    figure = Figure(figsize=(3.4 * len(conditions) + 1, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(conditions), sharey=True, squeeze=False)[0]
    names = [name for name in METHODS if name != "frozen" and any(record["method"] == name for record in records)]
    for axis, condition in zip(axes, conditions, strict=True):
        some = [record for record in records if record["data"] == condition]
        for place, name in enumerate(names):
            gain = gain_of(some, name)
            if gain is not None:
                colour = "tab:blue" if name in OURS else "tab:gray"
                axis.plot([gain.low, gain.high], [place, place], color=colour, linewidth=2)
                axis.plot([gain.mean], [place], "o", color=colour, markersize=5)
        axis.axvline(0, color="black", linewidth=0.6)
        axis.set_title(condition.replace("_", " "), fontsize=10)
        axis.set_xlabel("gain in AP50 on images never used", fontsize=8)
    axes[0].set_yticks(range(len(names)), names, fontsize=8)
    axes[0].invert_yaxis()
    figure.savefig(path, dpi=110)
