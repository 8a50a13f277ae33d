"""The page about speed, made from the records alone."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from metricopt.experiments.markdown import table

_TITLES = {
    "a": "What guidance costs",
    "b": "64 tasks at once",
    "c": "Interpolation",
    "d": "The prefix cache",
    "e": "Growth",
    "f": "Two processes",
    "g": "Starting",
}
_HEAD = """# Performance

Made by `metricopt bench speed --json results/speed/cpu.json --page docs/performance.md`; do not edit by hand.

Every ratio is measured interleaved in one process: in each round both sides run in turn, and the round gives one ratio.
Given are the median and the quartiles over the rounds. Times are computing time of the process (`time.process_time`)
unless a line says that it is by the clock. Networks have the paper's sizes and random weights; data are random numbers
of the size of A9A (34,189 training and 4,884 validation rows of 123 columns) or of CIFAR-10 images."""


def page(record: dict[str, Any]) -> str:
    """Markdown of a record of the speed benchmark.

    Example:
        >>> figure = {"name": "a", "what": "guided / plain", "median": 1.1, "low": 1.0, "high": 1.2, "rounds": 5,
        ...           "target": 1.15, "sense": "at most", "note": "", "met": True}
        >>> text = page({"provenance": {"torch": "2"}, "figures": [figure], "profile": []})
        >>> "| guided / plain | 1.10" in text, "1 of 1 targets" in text
        (True, True)
    """
    figures = record["figures"]
    judged = [figure for figure in figures if figure["met"] is not None]
    met = sum(figure["met"] for figure in judged)
    parts = [_HEAD, f"{met} of {len(judged)} targets are met.", _origin(record["provenance"])]
    for name, some in groupby(figures, key=lambda figure: figure["name"]):
        parts += [f"## ({name}) {_TITLES.get(name, name)}", _table(list(some))]
    if record["profile"]:
        parts += ["## Where the time goes now", _profile(record["profile"])]
    return "\n\n".join(parts) + "\n"


def _origin(provenance: dict[str, Any]) -> str:
    return "Measured with " + ", ".join(f"{name} {value}" for name, value in provenance.items()) + "."


def _table(figures: Sequence[dict[str, Any]]) -> str:
    rows = [
        [
            figure["what"],
            _number(figure["median"]),
            f"{_number(figure['low'])} to {_number(figure['high'])}",
            "" if figure["target"] is None else f"{figure['sense']} {figure['target']:g}",
            {True: "yes", False: "no", None: ""}[figure["met"]],
            figure["note"],
        ]
        for figure in figures
    ]
    return table(["what", "median", "quartiles", "target", "met", "how"], rows)


def _profile(shares: Sequence[dict[str, Any]]) -> str:
    parts = ["Shares of a profiled run on the A9A MLP by function, everything that it calls included."]
    for run, some in groupby(shares, key=lambda share: share["run"]):
        rows = list(some)
        seconds = next((row["seconds"] for row in rows if "seconds" in row), float("nan"))
        parts.append(f"{run}, {seconds:.1f} s:")
        parts.append(
            table(
                ["function", "share", "calls"],
                [[r["function"], f"{r['share']:.0%}", f"{r['calls']:,}"] for r in rows if r["function"] != "all"],
            )
        )
    return "\n\n".join(parts)


def _number(value: float | None) -> str:
    if value is None:
        return "—"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
