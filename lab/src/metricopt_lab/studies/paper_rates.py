"""How far the paths of stage 1 should go: the paper's recipe by the rate at which its trajectories are collected."""

from collections.abc import Sequence
from typing import final

from metricopt_lab.cells import EXPERIMENTS, Record, ScaledCell, ScaledExperiment
from metricopt_lab.data.cifar10 import FINGERPRINT
from metricopt_lab.markdown import heading, spread, table
from metricopt_lab.problems.cifar import NETWORKS
from metricopt_lab.problems.tabular_scales import SCALES, fingerprint
from metricopt_lab.studies.paper_recipe.experiment import METRIC, measured
from metricopt_lab.studies.paper_recipe.experiment import VERSION as RECIPE
from metricopt_lab.studies.paper_recipe.ground import Ground, ground_of, sampling_of

FACTORS = (1, 3, 10, 30)
"""By which the rate that `paper/rates.py` finds is multiplied."""

TASKS = {"smoke": 6, "small": 250, "paper": 1000}
"""Tasks by scale."""

UNREPORTED = 101
"""Split of the first seed: no table or figure reports on it or on those after it."""

NOTES = f"""\
Notes
- The paper's recipe with both deviations (preset paper), its trajectories collected at so many times the rate that the
  preset finds, at which the steps of a path, each as long as the first, would lead as far as phi_0 is from 0.
- moved: how far a path led, and ended: how far from 0 its end is, both as a share of how far phi_0 is from 0, means
  over paths. Rank correlation: with observations of withheld paths. Gain: on the rows that accept, of splits
  {UNREPORTED} and on, so that a rate could be chosen by them."""


@EXPERIMENTS.add("paper-rates")
@final
class PaperRates(ScaledExperiment[Ground]):
    """The paper's recipe by the rate at which its trajectories are collected, on splits that no table reports."""

    scales = tuple(TASKS)

    def known_data(self) -> list[str]:
        """Tables as far as the scale has them, and the network of CIFAR-10 whose metric has something to gain."""
        tables = [name for name in ("a9a", "covtype2") if name in SCALES[self.settings.scale].rows]
        return tables if self.settings.scale == "smoke" else [*tables, "small_convnet"]

    def cells(self) -> list[ScaledCell]:
        """The rate that is found before larger ones."""
        return [
            ScaledCell(self.settings.scale, data, sampling_of(data), seed, METRIC.get(data, "mcr"), f"x{factor}")
            for data in self.data()
            for seed in range(self.settings.seeds)
            for factor in FACTORS
        ]

    def ground(self, first: ScaledCell) -> Ground:
        """The problem, with the rate that is found."""
        return ground_of(first.scale, first.data, seed=UNREPORTED + first.seed)

    def measure(self, ground: Ground, cell: ScaledCell) -> Record:
        """What the recipe comes to from trajectories of its own."""
        factor, tasks = int(cell.method.removeprefix("x")), TASKS[cell.scale]
        faster = ground.faster(factor)
        found = FINGERPRINT if cell.data in NETWORKS else fingerprint(cell.data)
        record = measured(faster, "both", tasks, part="accept")
        return {**record, **_travelled(faster, tasks), "factor": factor, "fingerprint": found}

    def version_of(self, method: str) -> int:  # noqa: ARG002
        """That of the recipe."""
        return RECIPE

    @property
    def pictures(self) -> tuple[str, ...]:
        """None: it is a small table."""
        return ()

    def text(self, records: Sequence[Record]) -> str:
        """A table for each data set."""
        return rates_text(records)


def rates_text(records: Sequence[Record]) -> str:
    """A table for each data set, a row for each rate.

    Example:
        >>> record = dict(scale="small", data="a9a", seed=0, metric="mcr", factor=3, collecting_rate=2.7,
        ...               path_moved=0.4, path_ended=0.7, rank_correlation=0.8, gain=0.04, reach=1.0)
        >>> print(rates_text([record]).splitlines()[6])
        | 3 times | 2.7000          | .4000 | .7000 | +.8000           | +.0400 |
    """
    parts = [heading("The paper's recipe by the rate of its trajectories", records)]
    for data in dict.fromkeys(record["data"] for record in records):
        some = [record for record in records if record["data"] == data]
        parts += [f"## {data}, {some[0]['metric']}", _table(some)]
    return "\n\n".join([*parts, NOTES]) + "\n"


def _table(records: Sequence[Record]) -> str:
    rows = []
    for factor in sorted({record["factor"] for record in records}):
        found = [record for record in records if record["factor"] == factor]
        plain = [spread([one[name] for one in found]) for name in ("collecting_rate", "path_moved", "path_ended")]
        signed = [spread([one[name] for one in found], sign=True) for name in ("rank_correlation", "gain")]
        rows.append(["as found" if factor == 1 else f"{factor} times", *plain, *signed])
    return table(["rate", "collecting rate", "moved", "ended", "rank correlation", "gain"], rows)


def _travelled(ground: Ground, tasks: int) -> Record:
    phi = ground.paths(tasks).phi
    first, last = phi[:, 0], phi[:, -1]
    unit = float(first.norm(dim=1).mean())
    moved, ended = (last - first).norm(dim=1).mean(), last.norm(dim=1).mean()
    return {"path_moved": float(moved) / unit, "path_ended": float(ended) / unit}
