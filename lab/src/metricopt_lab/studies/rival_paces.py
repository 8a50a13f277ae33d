"""How fast published rivals should train, and for how long: their rates and steps, on splits that no table reports."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import mean
from typing import final

import torch

from metricopt.data.sampling import Sampling
from metricopt.metrics import METRICS
from metricopt_lab.cells import EXPERIMENTS, Record, ScaledCell, ScaledExperiment
from metricopt_lab.data.cifar10 import FINGERPRINT
from metricopt_lab.markdown import heading, spread, table
from metricopt_lab.problems.cifar import NETWORKS, cifar
from metricopt_lab.problems.tabular_scales import SCALES, fingerprint, problem_at
from metricopt_lab.rivals.published import PUBLISHED
from metricopt_lab.rivals.published.lesson import Pace
from metricopt_lab.rivals.published.paces import USUAL, row_of
from metricopt_lab.studies.paper_rates import UNREPORTED
from metricopt_lab.tables.cifar.methods import ADVANCED, OF_THE_PAPER, budget_of, on_both
from metricopt_lab.tables.cifar.methods import Bench as CifarBench
from metricopt_lab.tables.table3.methods import Bench as TableBench

FACTORS, LENGTHS = (0.2, 1.0, 5.0, 25.0), (1, 4)
"""By which the usual rate and the usual number of steps are multiplied."""

SL = on_both(["sl"])
"""Rows of the rival that is Table 3's."""

MEASURES = ("mcr", "f1")
"""What is asked for on tables."""

VERSION = 1
"""To be bumped by hand with any change of the study; that of a rival counts beside it."""

NOTES = f"""\
Notes
- Each rival on phi and on weights, as in Tables 1 to 3, with so many queries as there, by the rate of its Adam and the
  number of steps of one training: a query of MOEW, an episode of ALA, a round of SL, all of black-box differentiation.
  Where a step takes ten times as long (ResNet-32) the number of steps is left as it is.
- Gain: on the rows that accept, in costs, mean over metrics and splits {UNREPORTED} and on, which no table reports. The
  best of a row is in bold, and is what the tables use (`rivals/published/paces.py`)."""


@EXPERIMENTS.add("rival-paces")
@final
class RivalPaces(ScaledExperiment[CifarBench | TableBench]):
    """The paper's rivals by their rates and steps, on splits that no table reports."""

    scales = tuple(SCALES)

    def known_data(self) -> list[str]:
        """Tables as far as the scale has them, and both networks of CIFAR-10."""
        tables = [name for name in ("a9a", "covtype2") if name in SCALES[self.settings.scale].rows]
        return tables if self.settings.scale == "smoke" else [*tables, *NETWORKS]

    def cells(self) -> list[ScaledCell]:
        """Every pace of every row of a data set's table, short trainings before long ones."""
        scale, quick = self.settings.scale, self.settings.scale == "smoke"
        return [
            ScaledCell(scale, data, _sampling(data), seed, metric, f"{row}@{_words(pace)}")
            for data in self.data()
            for seed in range(self.settings.seeds)
            for length in LENGTHS
            for row in (OF_THE_PAPER if data in NETWORKS else SL)
            for pace in paces(data, row, length, quick=quick)
            for metric in _metrics(data)
        ]

    def ground(self, first: ScaledCell) -> CifarBench | TableBench:
        """A table's own problem, on another split."""
        seed, scale, data = UNREPORTED + first.seed, first.scale, first.data
        if data in NETWORKS:
            return CifarBench(cifar(data, scale=scale, seed=seed), budget_of(data, scale), ADVANCED[data])
        problem = problem_at(scale, data, METRICS[MEASURES[0]](), sampling=first.sampling, seed=seed)
        return TableBench(problem, SCALES[scale].queries)

    def measure(self, ground: CifarBench | TableBench, cell: ScaledCell) -> Record:
        """What a row gains at a pace, on rows that nothing was chosen on."""
        row, pace = _parted(cell.method)
        rival = PUBLISHED[row_of(row)]
        queries = ground.budget.queries if isinstance(ground, CifarBench) else ground.queries
        metric = ground.problem.metric if isinstance(ground, CifarBench) else METRICS[cell.metric]()
        where = ground.weights if row.endswith("_weights") else ground.problem
        oracle = where.oracle(queries=queries, metric=metric, labels_visible=rival.needs_labels)
        phi = rival.run(oracle, queries=queries, seed=where.seed, pace=pace).phi
        before, after = where.costs(torch.stack([torch.zeros_like(phi), phi]), "accept", metric=metric).tolist()
        found = FINGERPRINT if cell.data in NETWORKS else fingerprint(cell.data)
        told = {"row": row, "steps": pace.steps, "lr": pace.lr, "queries": oracle.ledger.used}
        return {**told, "gain": before - after, "fingerprint": found}

    def version_of(self, method: str) -> int:
        """That of the study and of the rival."""
        return 100 * VERSION + PUBLISHED[row_of(_parted(method)[0])].version

    @property
    def pictures(self) -> tuple[str, ...]:
        """None: these are small tables."""
        return ()

    def text(self, records: Sequence[Record]) -> str:
        """A table for each data set."""
        return paces_text(records)


def paces(data: str, row: str, length: int, *, quick: bool = False) -> list[Pace]:
    """Those of a length that are tried; the usual one alone if it is to be quick."""
    usual = USUAL[row_of(row)]
    if length > 1 and (quick or data == "resnet32"):
        return []
    return (
        [usual] if quick else [replace(usual, steps=length * usual.steps, lr=factor * usual.lr) for factor in FACTORS]
    )


def best_paces(records: Sequence[Record]) -> dict[str, tuple[int, float]]:
    """Steps and rate of the highest mean gain of each row, of one data set.

    Example:
        >>> row = {"row": "moew", "steps": 50, "lr": 0.1, "gain": 0.01}
        >>> best_paces([row, row | {"lr": 0.5, "gain": 0.03}, row | {"lr": 0.5, "gain": 0.01}])
        {'moew': (50, 0.5)}
    """
    best = {}
    for row in dict.fromkeys(record["row"] for record in records):
        gains = _gains([record for record in records if record["row"] == row])
        best[row] = max(gains, key=lambda pace: mean(gains[pace]))
    return best


def paces_text(records: Sequence[Record]) -> str:
    """A table for each data set, a row for each rival and number of steps, a column for each rate over the usual one.

    Example:
        >>> record = dict(scale="small", data="a9a", seed=0, metric="f1", row="sl", steps=20, lr=0.01, gain=0.04)
        >>> print(paces_text([record]).splitlines()[6])
        | sl  | 20    | .01        |              | **+.0400** |            |             |
    """
    parts = [heading("The paper's rivals by rate and steps", records)]
    for data in dict.fromkeys(record["data"] for record in records):
        some = [record for record in records if record["data"] == data]
        metrics = " and ".join(dict.fromkeys(record["metric"] for record in some))
        parts += [f"## {data}, {metrics}", _table(some)]
    return "\n\n".join([*parts, NOTES]) + "\n"


def _table(records: Sequence[Record]) -> str:
    best, rows = best_paces(records), []
    for row, steps in dict.fromkeys((record["row"], record["steps"]) for record in records):
        gains = _gains([record for record in records if record["row"] == row and record["steps"] == steps])
        usual = USUAL[row_of(row)].lr
        shown = [_shown(gains, (steps, round(factor * usual, 9)), best[row]) for factor in FACTORS]
        rows.append([row, str(steps), f"{usual:g}".removeprefix("0"), *shown])
    factors = ["at it" if factor == 1 else f"{factor:g} times it" for factor in FACTORS]
    return table(["row", "steps", "usual rate", *factors], rows)


def _shown(gains: dict[tuple[int, float], list[float]], pace: tuple[int, float], best: tuple[int, float]) -> str:
    if pace not in gains:
        return ""
    text = spread(gains[pace], sign=True)
    return f"**{text}**" if pace == best else text


def _gains(records: Sequence[Record]) -> dict[tuple[int, float], list[float]]:
    found: dict[tuple[int, float], list[float]] = {}
    for record in records:
        found.setdefault((record["steps"], round(record["lr"], 9)), []).append(record["gain"])
    return found


def _words(pace: Pace) -> str:
    return f"{pace.steps}x{pace.lr:g}"


def _parted(method: str) -> tuple[str, Pace]:
    """The row of a table that a method is, and its pace."""
    row, _, words = method.partition("@")
    steps, _, lr = words.partition("x")
    return row, Pace(int(steps), float(lr), USUAL[row_of(row)].cosine)


def _metrics(data: str) -> tuple[str, ...]:
    return {"small_convnet": ("aucpr",), "resnet32": ("mcr",)}.get(data, MEASURES)


def _sampling(data: str) -> Sampling:
    return "plain" if data in NETWORKS else "balanced"
