"""The quality benchmark as an experiment: every method on every problem of a half, with every seed and budget."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import final

from metricopt_lab.cells import Experiment, Record, chosen
from metricopt_lab.problems.zoo import PROBLEMS
from metricopt_lab.quality.cell import QualityCell
from metricopt_lab.quality.ground import Ground
from metricopt_lab.quality.methods import METHODS, OURS, SEARCH_VERSION, methods_of
from metricopt_lab.quality.plots import plot_duels, plot_gains
from metricopt_lab.quality.recipes import newest, widest
from metricopt_lab.quality.settings import Settings
from metricopt_lab.quality.tables import markdown

BENCHMARK_VERSION = 2
"""To be bumped by hand when a change of problems, metrics or of the judging changes figures."""


@final
@dataclass(frozen=True)
class Quality(Experiment[QualityCell, Ground]):
    """For the same number of metric calls, which method gives the better metric on test data?

    Attributes:
        settings: What to run.

    Example:
        >>> [cell.key for cell in Quality(Settings(seeds=1, queries=(50,), problems=("adult_aucpr",),
        ...                                        methods=("wise_ft", "snes"))).cells()]
        ['adult_aucpr__0__wise_ft__0050']
    """

    settings: Settings

    @property
    def name(self) -> str:
        """What its files are called."""
        return f"quality_{self.settings.half}"

    def cells(self) -> list[QualityCell]:
        """The first seed of every problem before the second of any; methods where they can be used."""
        settings, methods = self.settings, methods_of(self.settings)
        known = [name for name, spec in PROBLEMS.items() if spec.half == settings.half]
        problems = chosen(settings.problems, known, f"{settings.half} problem")
        return [
            QualityCell(problem, method.name, seed, queries)
            for seed, problem in product(settings.seed_list, problems)
            for method in methods
            if method.fits(labels_visible=PROBLEMS[problem].labels_visible)
            for queries in settings.queries
            if queries <= method.most
        ]

    def ground(self, first: QualityCell) -> Ground:
        """A problem with its pre-trained network, and what rivals share there."""
        return Ground(PROBLEMS[first.problem].build(first.seed))

    def measure(self, ground: Ground, cell: QualityCell) -> Record:
        """What the method gives at the budget; costs are those of the original where it has nothing to offer."""
        found = METHODS[cell.method].run(ground, queries=cell.queries)
        metric = ground.problem.metric
        shared = {"metric": metric.name, "goal": metric.goal, "cost_before": ground.before}
        if found is None:
            return {**shared, "offered": False}
        return {
            **shared,
            "offered": True,
            "cost_returned": found.returned,
            "cost_proposed": found.proposed,
            "calls": found.calls,
            "seconds": round(found.took.seconds, 3),
            "cpu_seconds": round(found.took.cpu, 3),
            "verdict": found.verdict,
            "details": dict(found.details),
        }

    def version_of(self, method: str) -> int:
        """Of a rival, or of ours where labels are visible."""
        return METHODS[method].version if method in METHODS else 0

    def present_version(self, record: Record) -> int:
        """Of a rival, or of the way that `optimize` takes on the record's problem."""
        return self._version(record["method"], record["problem"])

    def made_by(self, cell: QualityCell) -> Record:
        """The version of the method and of the benchmark."""
        return {"version": self._version(cell.method, cell.problem), "benchmark": BENCHMARK_VERSION}

    def _version(self, method: str, problem: str) -> int:
        searches = method == "metricopt_adapter" or (method in OURS and not PROBLEMS[problem].labels_visible)
        return SEARCH_VERSION if searches else self.version_of(method)

    def shown(self, records: Mapping[str, Record]) -> list[Record]:
        """All of the present benchmark, whatever was asked for now."""
        return newest([record for _, record in sorted(records.items()) if record["benchmark"] == BENCHMARK_VERSION])

    def text(self, records: Sequence[Record]) -> str:
        """Targets, gains, duels, what acceptance costs, time, and every problem."""
        return markdown(records, self.settings.half)

    def draw(self, records: Sequence[Record], folder: Path) -> None:
        """Gains over budgets, and duels."""
        gains, duels = self.pictures
        main = widest(records)
        plot_gains(main, folder / gains)
        plot_duels(main, folder / duels)

    @property
    def pictures(self) -> tuple[str, ...]:
        """Gains over budgets, and duels."""
        return f"{self.name}-gain.svg", f"{self.name}-duels.svg"
