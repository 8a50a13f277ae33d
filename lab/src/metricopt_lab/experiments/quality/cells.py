"""Cells on disk: one file each, with what it was computed from inside."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch

from metricopt_lab.experiments.quality.cell import Row
from metricopt_lab.experiments.quality.methods import Method
from metricopt_lab.experiments.quality.settings import DEFAULT_DIM, Settings
from metricopt_lab.experiments.store import Store

VERSION = 1
"""To be raised when a change of problems, metrics, adapters or of this package changes the figures."""


@dataclass(frozen=True)
class Cell:
    """A method on a problem with a seed and a size of phi.

    Example:
        >>> Cell("a9a_plain_f1", "cma_es", 0).key
        'a9a_plain_f1__cma_es__0'
    """

    problem: str
    method: str
    seed: int
    dim: int = DEFAULT_DIM

    @property
    def key(self) -> str:
        """Name of its file; the size of phi is in it unless it is the usual one."""
        size = "" if self.dim == DEFAULT_DIM else f"__d{self.dim}"
        return f"{self.problem}__{self.method}__{self.seed}{size}"


def fingerprint(settings: Settings, method: Method, dim: int) -> dict[str, Any]:
    """What a cell's figures depend on; a stored cell with another fingerprint is stale."""
    return {
        "version": VERSION,
        "queries": list(settings.queries),
        "resamples": settings.resamples,
        "film_dim": dim,
        "torch": torch.__version__,
        **method.facts,
    }


@final
class CellStore:
    """A folder of cells.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = CellStore(Path(folder))
        ...     store.save(Cell("p", "m", 0), {"version": 1}, [{"queries": 50}], seconds=0.5, cpu_seconds=0.4)
        ...     store.fresh(Cell("p", "m", 0), {"version": 1}), store.fresh(Cell("p", "m", 0), {"version": 2})
        (True, False)
    """

    def __init__(self, out: Path) -> None:
        self._store = Store(out / "cells")

    def fresh(self, cell: Cell, settings: dict[str, Any]) -> bool:
        """Whether the cell is there and was computed with these settings."""
        return cell.key in self._store and self._store.read(cell.key).get("settings") == settings

    def save(
        self, cell: Cell, settings: dict[str, Any], rows: list[Row], *, seconds: float, cpu_seconds: float
    ) -> None:
        """Write the cell, with all the time it took on the wall and on the processor, judging included."""
        times = {"seconds": seconds, "cpu_seconds": cpu_seconds}
        self._store.write(cell.key, {"settings": settings, **times, "rows": rows})

    def comparable(self, settings: Settings) -> list[dict[str, Any]]:
        """Contents of all cells with the same budgets and resamples, those of the first size of phi first."""
        wanted = {"version": VERSION, "queries": list(settings.queries), "resamples": settings.resamples}
        found = [
            cell
            for cell in (self._store.read(path.stem) for path in sorted(self._store.folder.glob("[!.]*.json")))
            if all(cell["settings"][name] == value for name, value in wanted.items())
            and cell["settings"]["film_dim"] in settings.dims
        ]
        return sorted(found, key=lambda cell: settings.dims.index(cell["settings"]["film_dim"]))
