"""The page about speed, made from the records alone."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from metricopt_lab.cells import Record
from metricopt_lab.markdown import table

_TITLES = {
    "a": "What guidance costs",
    "b": "64 tasks at once",
    "c": "Interpolation",
    "d": "The prefix cache",
    "e": "Growth",
    "f": "Two processes",
    "g": "Starting",
    "h": "The first answer, and silence",
    "p": "Queries of a detector",
    "m": "Meta-training of a learned optimizer",
    "n": "Meta-training of a learned optimizer beside that of the value function",
    "q": "Queries of the default search",
    "r": "Retrieval",
}
_HEAD = """# Performance

Made by `metricopt docs` from `results/speed.jsonl`, which `metricopt bench speed --out results` wrote; do not edit.

Every ratio is measured interleaved in one process: in each round both sides run in turn, and the round gives one ratio.
Given are the median and the quartiles over the rounds. Times are computing time of the process (`time.process_time`)
unless a line says that it is by the clock. Networks have the paper's sizes and random weights; data are random numbers
of the size of A9A (34,189 training and 4,884 validation rows of 123 columns) or of CIFAR-10 images."""

_NOTES = """## What limits it

- **Guidance of a very small network.** A plain step of the MLP takes about a millisecond, so a bound of 1.15 leaves
  0.15 ms for Eqs. 3 and 4. Repeated alone, the guidance of a step takes about 0.05 ms. But between two steps the
  network's own work fills the processor's caches, and the first call of any function then costs several times as
  much: the optimizer's own step, 0.02 ms when repeated, takes 0.09 ms there and the guidance about 0.14 ms. It began as
  some 130 small torch operations and 0.9 ms a step; the value network folded into plain layers, small matrices in
  NumPy, Gram-Schmidt in plain Python, one function for a single phi, memory that is filled and not made, and no second
  set of torch's hooks gave the present ratio. What is left are some 35 calls, four of them torch's: the value network
  takes 0.025 ms of it, the basis 0.03 ms, to see whether the network has changed 0.01 ms, and to touch NumPy at all
  about 0.03 ms. The ratio differs by 0.02 from run to run. For a convolutional network all of it disappears.
- **Interpolation.** All paths are observed at the same steps, so that one decomposition of the kernel a length scale
  serves all of them at all ratios of noise, and a variance is computed once a grid point and not once a path. Before,
  at random steps, 64 paths of K = 50, T = 1,000 took 12.6 ms with features that all shared and bounds on the likelihood
  for what had to be solved path by path, and 40 ms without. Paths with a failed query, or with steps of their own,
  are solved path by path.
  Now a quarter of the time at K = 50 and half of it at K = 10 are the fixed cost of some 120 operations; right after
  scikit-learn, which leaves the processor's memory full of its own, each takes 1.4 to 2 times as long as repeated
  alone. Nothing is kept between two calls. scikit-learn's optimizer starts from one point only; with 9 restarts it
  searches about as widely as a grid.
- **Two processes by the clock.** The clock sees who else uses the cores: two processes that only count, timed beside,
  show what the machine had to give. Groups of tasks share nothing but the data, so on free cores two workers nearly
  halve the time, as the line by computing time shows. This process is one of the two, so that a single one has to be
  forked and to find memory of its own, and paths are written to memory that both share: 1.71 to 1.76 by the clock on
  a quiet machine, where two forked ones that sent their paths through a pipe gave 1.61 to 1.72. Longer paths pay less
  for the fork: 1.87 with T = 200.
- **Populations.** Measured for 2 to 64 members, batches of 32 and 256: `torch.func.vmap` over the lean graph of what
  depends on phi is 1.5 to 8 times as fast as a loop for the MLP from 8 members on and as fast as a path batched by hand
  at 64, which would save a constant 0.3 ms below that; for one or two members, and for ResNet-32 whatever their number,
  the loop is as fast or faster. So it is a loop for these and vmap for all others. Rows are taken in blocks that fit
  the processor's own memory: 2 to 3 times as fast as all rows at once."""


def page(records: Sequence[Record]) -> str:
    """Markdown of the records of the speed benchmark.

    Example:
        >>> figure = {"name": "a", "what": "guided / plain", "median": 1.1, "low": 1.0, "high": 1.2, "rounds": 5,
        ...           "target": 1.15, "sense": "at most", "note": "", "met": True}
        >>> text = page([{"key": "a", "figures": [figure], "versions": {"torch": "2"}}])
        >>> "| guided / plain | 1.10" in text, "1 of 1 targets" in text
        (True, True)
    """
    figures = [figure for record in records for figure in record.get("figures", [])]
    shares = [share for record in records for share in record.get("shares", [])]
    judged = [figure for figure in figures if figure["met"] is not None]
    met = sum(figure["met"] for figure in judged)
    parts = [_HEAD, f"{met} of {len(judged)} targets are met.", _origin([record["versions"] for record in records])]
    for name, some in groupby(figures, key=lambda figure: figure["name"]):
        parts += [f"## ({name}) {_TITLES.get(name, name)}", _table(list(some))]
    parts.append(_NOTES)
    if shares:
        parts += ["## Where the time goes now", _profile(shares)]
    return "\n\n".join(parts) + "\n"


def _origin(versions: Sequence[dict[str, Any]]) -> str:
    """What all were measured with; where they differ, from the least to the greatest."""
    names = dict.fromkeys(name for one in versions for name in one)
    found = {name: sorted({str(one[name]) for one in versions if name in one}) for name in names}
    parts = [
        f"{name} {values[0] if len(values) == 1 else f'{values[0]} to {values[-1]}'}" for name, values in found.items()
    ]
    return f"Measured with {', '.join(parts)}."


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
