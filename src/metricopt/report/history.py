"""Every query of a run as a table, without pandas and ready for it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final, overload

from metricopt.report.run import Run
from metricopt.report.words import number, safe

COLUMNS = ("query", "stage", "value", "best", "kept")
SHOWN = 5
"""Rows at either end that are shown of a longer table."""

Row = dict[str, Any]


def history(run: Run) -> "History":
    """The queries of a run, one row each.

    `query` counts from 1; `value` is in the metric's natural units, None where the metric failed; `best` is the best
    one so far that keeps the constraints; `kept` says whether its phi is in the model that was returned.

    Example:
        >>> import numpy as np
        >>> run = Run({"metric": {"name": "f1"}}, stages=("start", "value"), costs=np.array([0.4, 0.3]))
        >>> history(run)[1]
        {'query': 2, 'stage': 'value', 'value': 0.7, 'best': 0.7, 'kept': False}
    """
    rows = zip(run.stages, run.values.tolist(), run.best.tolist(), strict=True)
    return History(
        tuple(
            {"query": i + 1, "stage": stage, "value": _known(value), "best": _known(best), "kept": i == run.kept}
            for i, (stage, value, best) in enumerate(rows)
        )
    )


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


@final
@dataclass(frozen=True, repr=False)
class History(Sequence[Row]):
    """Rows with the columns `COLUMNS`; `pandas.DataFrame(history)` takes it as it is.

    Example:
        >>> print(History(({"query": 1, "stage": "start", "value": 0.6, "best": 0.6, "kept": False},)))
        query  stage   value    best  kept
            1  start  0.6000  0.6000
    """

    rows: tuple[Row, ...]

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> "History": ...
    def __getitem__(self, index: int | slice) -> "Row | History":
        """One row, or some of them as a table."""
        return History(self.rows[index]) if isinstance(index, slice) else self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def column(self, name: str) -> list[Any]:
        """One column, by its name."""
        return [row[name] for row in self.rows]

    def __repr__(self) -> str:
        lines = [COLUMNS, *self._shown()]
        widths = [max(len(line[i]) for line in lines) for i in range(len(COLUMNS))]
        return "\n".join("  ".join(map(str.rjust, line, widths)).rstrip() for line in lines)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in COLUMNS)
        body = "".join(f"<tr>{''.join(f'<td>{safe(each)}</td>' for each in row)}</tr>" for row in self._shown())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _shown(self) -> list[tuple[str, ...]]:
        """The first rows, the one that was kept, and the last rows, as text."""
        last = len(self) - SHOWN
        near = [i for i, row in enumerate(self.rows) if i < SHOWN or i >= last or row["kept"]]
        lines, before = [], -1
        for i in near:
            if i > before + 1:
                lines.append(("...",) * len(COLUMNS))
            lines.append(_texts(self.rows[i]))
            before = i
        return lines


def _texts(row: Row) -> tuple[str, ...]:
    kept = "kept" if row["kept"] else ""
    return str(row["query"]), str(row["stage"]), number(row["value"]), number(row["best"]), kept
