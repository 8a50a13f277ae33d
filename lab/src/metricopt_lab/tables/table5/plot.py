"""Queries whose nearest answer changed, as rows of pictures: won above, lost below."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from metricopt_lab.cells import Record
from metricopt_lab.data.omniglot import SIDE
from metricopt_lab.tables.table5.changed import SHOWN, unpacked

_PARTS = ("query", "before", "after")


def draw_changed(records: Sequence[Record], path: Path) -> None:
    """A column of pictures for each condition that has them."""
    from matplotlib.figure import Figure

    shown = [record for record in records if "changed" in record]
    if not shown:
        return
    figure = Figure(figsize=(2.6 * len(shown), 0.78 * 2 * SHOWN), layout="constrained")
    grid = figure.subplots(2 * SHOWN, 3 * len(shown), squeeze=False)
    for cell in grid.flat:
        cell.set_axis_off()
    for column, record in enumerate(shown):
        _condition(grid[:, 3 * column : 3 * column + 3], record)
    figure.savefig(path, dpi=110, metadata={"Software": None})


def _condition(grid: Any, record: Record) -> None:
    found = record["changed"]
    condition = record["data"] if record["accepted"] else f"{record['data']}, not kept"
    for kind, first, colour in (("won", 0, "#1a7f37"), ("lost", SHOWN, "#b42318")):
        title = f"{condition}: {found['won_count']} won" if kind == "won" else f"{found['lost_count']} lost"
        for row, triple in enumerate(found[kind]):
            for place, (name, image) in enumerate(zip(_PARTS, triple, strict=True)):
                cell = grid[first + row, place]
                cell.imshow(1 - unpacked(image, SIDE), cmap="gray", vmin=0, vmax=1)
                cell.set_axis_on()
                cell.set_xticks([])
                cell.set_yticks([])
                right = name == ("after" if kind == "won" else "before")
                for edge in cell.spines.values():
                    edge.set_color("#888888" if name == "query" else "#1a7f37" if right else "#b42318")
                    edge.set_linewidth(1.0 if name == "query" else 2.0)
                if row == 0:
                    cell.set_title(f"{title}\n{name}" if place == 1 else name, fontsize=8, color=colour)
