"""How fast the paper's rivals should train, and for how long: rates and steps, on splits that no table reports."""

import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import mean
from typing import final

import torch

from metricopt.metrics import METRICS
from metricopt_lab.cells import EXPERIMENTS, Record, ScaledCell, ScaledExperiment
from metricopt_lab.data.cifar10 import FINGERPRINT
from metricopt_lab.markdown import heading, spread, table
from metricopt_lab.problems.cifar import NETWORKS, cifar
from metricopt_lab.problems.tabular_scales import SCALES, fingerprint, problem_at
from metricopt_lab.rivals.published import PUBLISHED, rival_of
from metricopt_lab.rivals.published.lesson import Pace
from metricopt_lab.rivals.published.paces import USUAL
from metricopt_lab.studies.paper_rates import UNREPORTED
from metricopt_lab.studies.paper_recipe.ground import sampling_of
from metricopt_lab.tables.cifar.methods import ADVANCED, OF_THE_PAPER, budget_of, on_both
from metricopt_lab.tables.cifar.methods import Bench as CifarBench
from metricopt_lab.tables.cifar.table import LOSSES_VERSION as IMAGE_LOSSES
from metricopt_lab.tables.table3.experiment import LOSSES_VERSION as TABLE_LOSSES
from metricopt_lab.tables.table3.methods import METHODS
from metricopt_lab.tables.table3.methods import Bench as TableBench

FACTORS, LOSS_FACTORS = (0.2, 1.0, 5.0, 25.0), (0.008, 0.04, 0.2, 1.0)
"""By which the usual rate is multiplied: of a rival, and of a loss that is followed."""

FURTHER = {("small_convnet", "moew_weights"): (125.0,)}
"""And where the highest rate was the best of these."""

LENGTHS = (1, 4)
"""By which the usual number of steps is multiplied."""

WHOLE_NETWORK = ("lovasz", "cost_sensitive")
"""Losses of Table 3, which train all weights."""

MEASURES = ("mcr", "f1")
"""What is asked for on tables."""

METRICS_OF = {"small_convnet": ("aucpr",), "resnet32": ("mcr",)}
"""And with a network of CIFAR-10."""

VERSION = 1
"""To be bumped by hand with any change of the study; that of a rival counts beside it."""

NOTES = f"""\
Notes
- The rows of Tables 1 to 3 that train, with so many queries as there, by the rate of their Adam and the number of steps
  of one training: a query of MOEW, an episode of ALA, a round of SL, all of black-box differentiation and of losses
  (on all weights of a table's network: epochs). Where a step takes ten times as long (ResNet-32) the number of steps
  is left as it is.
- Gain: on the rows that accept, in costs, mean over metrics and splits {UNREPORTED} and on, which no table reports. The
  best of a row is in bold, and is what the tables use (`rivals/published/paces.py`)."""


@EXPERIMENTS.add("rival-paces")
@final
class RivalPaces(ScaledExperiment[CifarBench | TableBench]):
    """The paper's rivals and losses by their rates and steps, on splits that no table reports."""

    scales = tuple(SCALES)

    def known_data(self) -> list[str]:
        """Tables as far as the scale has them, and both networks of CIFAR-10."""
        tables = [name for name in ("a9a", "covtype2") if name in SCALES[self.settings.scale].rows]
        return tables if self.settings.scale == "smoke" else [*tables, *NETWORKS]

    def cells(self) -> list[ScaledCell]:
        """Every pace of every row of a data set's table, short trainings before long ones."""
        scale, quick = self.settings.scale, self.settings.scale == "smoke"
        return [
            ScaledCell(scale, data, sampling_of(data), seed, metric, f"{row}@{pace.steps}x{pace.lr:g}")
            for data in self.data()
            for seed in range(self.settings.seeds)
            for length in LENGTHS
            for row in rows_of(data)
            for pace in paces(data, row, length, quick=quick)
            for metric in METRICS_OF.get(data, MEASURES)
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
        began = time.perf_counter()
        if isinstance(ground, CifarBench):
            found = {**_on_images(ground, row, pace), "fingerprint": FINGERPRINT}
        else:
            found = {**_on_table(ground, row, pace, cell.metric), "fingerprint": fingerprint(cell.data)}
        told = {"row": row, "steps": pace.steps, "lr": pace.lr, "problem": ground.problem.notes}
        return {**told, **found, "seconds": time.perf_counter() - began}

    def version_of(self, method: str) -> int:
        """That of the study and of the rival or, as in its table, of the loss."""
        rival = rival_of(_parted(method)[0])
        losses = TABLE_LOSSES if rival in WHOLE_NETWORK else IMAGE_LOSSES
        return 100 * VERSION + (PUBLISHED[rival].version if rival in PUBLISHED else losses)

    @property
    def pictures(self) -> tuple[str, ...]:
        """None: these are small tables."""
        return ()

    def text(self, records: Sequence[Record]) -> str:
        """A table for each data set."""
        return paces_text(records)


def _on_images(bench: CifarBench, row: str, pace: Pace) -> Record:
    bench.paces = {row: pace}
    found = bench.methods[row]()
    where = found.where or bench.problem
    before, after = where.costs(torch.stack([torch.zeros_like(found.phi), found.phi]), "accept").tolist()
    return {"gain": before - after, "queries": found.queries}


def _on_table(bench: TableBench, row: str, pace: Pace, metric: str) -> Record:
    measure, accept = METRICS[metric](), bench.problem.accept
    tried = TableBench(bench.problem, bench.queries, {row: pace})
    found = [METHODS[name](tried, measure) for name in ("ce", row)]
    outputs = torch.stack([each.outputs(accept.inputs) for each in found])
    before, after = measure.cost(measure.values(outputs, accept.targets)).tolist()
    return {"gain": before - after, "queries": found[1].queries}


def rows_of(data: str) -> list[str]:
    """The rows of a data set's table that train at a pace.

    Example:
        >>> rows_of("a9a")
        ['sl', 'sl_weights', 'lovasz', 'cost_sensitive']
    """
    if data in NETWORKS:
        return [*OF_THE_PAPER, *on_both(ADVANCED[data])]
    return [*on_both(["sl"]), *WHOLE_NETWORK]


def paces(data: str, row: str, length: int, *, quick: bool = False) -> list[Pace]:
    """Those of a length that are tried; the usual one alone if it is to be quick."""
    usual = USUAL[rival_of(row)]
    if length > 1 and (quick or data == "resnet32"):
        return []
    tried = [*FACTORS, *FURTHER.get((data, row), ())] if rival_of(row) in PUBLISHED else LOSS_FACTORS
    factors = (1.0,) if quick else tried
    return [replace(usual, steps=length * usual.steps, lr=factor * usual.lr) for factor in factors]


def best_paces(records: Sequence[Record]) -> dict[str, tuple[int, float]]:
    """Steps and rate of the highest mean gain of each row, of one data set; its own where others only reach that.

    Example:
        >>> row = {"row": "moew", "steps": 50, "lr": 0.1, "gain": 0.01}
        >>> best_paces([row, row | {"lr": 0.5, "gain": 0.03}, row | {"lr": 0.5, "gain": 0.01}])
        {'moew': (50, 0.5)}
    """
    best = {}
    for row in dict.fromkeys(record["row"] for record in records):
        gains = _gains([record for record in records if record["row"] == row])
        own = USUAL[rival_of(row)].steps, USUAL[rival_of(row)].lr
        best[row] = max(gains, key=lambda pace: (mean(gains[pace]), pace == own))
    return best


def paces_text(records: Sequence[Record]) -> str:
    """A table for each data set, a row for each rival or loss and number of steps.

    Example:
        >>> record = dict(scale="small", data="a9a", seed=0, metric="f1", row="sl", steps=20, lr=0.01, gain=0.04)
        >>> print(paces_text([record, record | {"lr": 0.05, "gain": -0.1}]).splitlines()[6])
        | sl  | 20    | **.01: +.0400**, .05: -.1000 |
    """
    parts = [heading("The paper's rivals by rate and steps", records)]
    for data in dict.fromkeys(record["data"] for record in records):
        some = [record for record in records if record["data"] == data]
        metrics = " and ".join(dict.fromkeys(record["metric"] for record in some))
        parts += [f"## {data}, {metrics}", _table(some)]
    return "\n\n".join([*parts, NOTES]) + "\n"


def _table(records: Sequence[Record]) -> str:
    best, rows = best_paces(records), []
    for row in dict.fromkeys(record["row"] for record in records):
        gains = _gains([record for record in records if record["row"] == row])
        for steps in dict.fromkeys(steps for steps, _ in gains):
            shown = [_shown(gains, pace, best[row]) for pace in sorted(gains) if pace[0] == steps]
            rows.append([row, str(steps), ", ".join(shown)])
    return table(["row", "steps", "gain by rate"], rows)


def _shown(gains: dict[tuple[int, float], list[float]], pace: tuple[int, float], best: tuple[int, float]) -> str:
    text = f"{pace[1]:g}".removeprefix("0") + ": " + spread(gains[pace], sign=True)
    return f"**{text}**" if pace == best else text


def _gains(records: Sequence[Record]) -> dict[tuple[int, float], list[float]]:
    found: dict[tuple[int, float], list[float]] = {}
    for record in records:
        found.setdefault((record["steps"], round(record["lr"], 9)), []).append(record["gain"])
    return found


def _parted(method: str) -> tuple[str, Pace]:
    """The row of a table that a method is, and its pace."""
    row, _, words = method.partition("@")
    steps, _, lr = words.partition("x")
    return row, Pace(int(steps), float(lr), USUAL[rival_of(row)].cosine)
