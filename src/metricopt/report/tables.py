"""Tables: sorted by clicking a column's head where scripts run, plain tables elsewhere."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from metricopt.report.run import Run
from metricopt.report.words import NONE, number, safe


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], *, key: str) -> str:
    """A table; numbers stand right and carry their exact value to sort by.

    Example:
        >>> table(["stage", "queries"], [["start", 3]], key="t").count("<td")
        2
    """
    rows = [list(row) for row in rows]
    right = [any(isinstance(row[i], int | float) for row in rows) for i in range(len(head))]
    top = "".join(_head(*each) for each in zip(head, right, strict=True))
    body = "".join(f"<tr>{''.join(_cell(each) for each in row)}</tr>" for row in rows)
    return (
        f'<div class="scroll"><table id="table-{key}"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _head(words: str, right: bool) -> str:
    kind = ' class="number"' if right else ""
    return f'<th scope="col"{kind}><button type="button">{safe(words).replace("_", "_<wbr>")}</button></th>'


def _cell(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f'<td class="number" data-value="{value!r}">{number(value)}</td>'
    return f"<td>{NONE if value is None else safe(value)}</td>"


def facts(pairs: Mapping[str, Any]) -> str:
    """Names with their values, as a list of definitions."""
    rows = "".join(f"<div><dt>{safe(name)}</dt><dd>{safe(value)}</dd></div>" for name, value in pairs.items())
    return f'<dl class="facts">{rows}</dl>'


def flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings as one level, with dotted names.

    Example:
        >>> flat({"recipe": {"batch": 5}, "bounds": [0, 1]})
        {'recipe.batch': 5, 'bounds': '0, 1'}
    """
    found: dict[str, Any] = {}
    for name, value in data.items():
        if isinstance(value, Mapping) and not ("shape" in value and "float32" in value):
            found |= flat(value, f"{prefix}{name}.")
        elif isinstance(value, list | tuple) and value and all(isinstance(each, Mapping) for each in value):
            found |= flat({str(i + 1): each for i, each in enumerate(value)}, f"{prefix}{name}.")
        elif not isinstance(value, Mapping):
            found[f"{prefix}{name}"] = ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
    return found


def stage_table(run: Run) -> str:
    """The ledger by stage."""
    rows = []
    stages = np.array(run.stages, dtype=object)
    same = run.values == np.concatenate([[np.nan], run.best[:-1]])  # the very answer of the best point before
    for stage in dict.fromkeys(run.stages):
        mine = stages == stage
        values = run.values[mine & run.answered]
        failed = int((mine & ~run.answered).sum())
        best = float(values.max() if run.sign > 0 else values.min()) if len(values) else None
        middle = float(np.median(values)) if len(values) else None
        unchanged = int((mine & same).sum())
        improved = sum(1 for i in run.path if i < len(mine) and mine[i])
        rows.append([stage, int(mine.sum()), failed, best, middle, improved, unchanged])
    head = ["stage", "queries", "failed", "best", "median", "became best", "no change"]
    return table(head, rows, key="stages")


def query_table(run: Run) -> str:
    """Every query."""
    rows = [
        [i + 1, stage, float(value) if np.isfinite(value) else None, run.failures.get(i, "")]
        for i, (stage, value) in enumerate(zip(run.stages, run.values, strict=True))
    ]
    return table(["query", "stage", run.metric, "failure"], rows, key="queries")
