"""Tables that read well as plain text and are Markdown."""

import math
from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Any

from metricopt.report.words import plural


def heading(what: str, records: Sequence[Mapping[str, Any]], *, of: str = "seed") -> str:
    """The first line of a text: what it is about, the scale of its records, and how many seeds they have.

    Example:
        >>> heading("Table 3", [{"scale": "small", "seed": 0}, {"scale": "small", "seed": 1}])
        "# Table 3, scale small (not the paper's), 2 seeds"
    """
    scale = records[0]["scale"]
    own = scale if scale == "paper" else f"{scale} (not the paper's)"
    return f"# {what}, scale {own}, {plural(len({record['seed'] for record in records}), of)}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with aligned columns.

    Example:
        >>> print(table(["method", "F"], [["metricopt", ".69"], ["ce", ".65"]]))
        | method    | F   |
        |-----------|-----|
        | metricopt | .69 |
        | ce        | .65 |
    """
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([_line(header, widths), rule, *(_line(row, widths) for row in rows)])


def spread(values: Sequence[float], *, sign: bool = False) -> str:
    """Mean and standard deviation over seeds; the mean alone of one, a dash of none.

    Example:
        >>> spread([0.1, 0.3]), spread([0.25], sign=True), spread([])
        ('.2000 ± .1414', '+.2500', '—')
    """
    known = [value for value in values if value is not None and not math.isnan(value)]
    if not known:
        return "—"
    text = short(mean(known), sign=sign)
    return f"{text} ± {short(stdev(known))}" if len(known) > 1 else text


def short(value: float, *, sign: bool = False) -> str:
    """Four digits, without the leading zero.

    Example:
        >>> short(0.1369), short(-0.25), short(0.25, sign=True), short(1.0)
        ('.1369', '-.2500', '+.2500', '1.0000')
    """
    text = f"{value:+.4f}" if sign else f"{value:.4f}"
    return text.replace("0.", ".", 1) if abs(value) < 0.99995 else text


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"
