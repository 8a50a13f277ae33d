"""The quality benchmark as an experiment: every method on every problem with every seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, final

from metricopt_lab.cells import Experiment, Record, chosen
from metricopt_lab.cells.versions import version_of
from metricopt_lab.problems import PROBLEMS
from metricopt_lab.quality.cell import QualityCell
from metricopt_lab.quality.judge import Judge
from metricopt_lab.quality.methods import methods_of
from metricopt_lab.quality.plots import plot_gains, plot_wins
from metricopt_lab.quality.rows import judged, rows_of, shared_facts
from metricopt_lab.quality.settings import Settings
from metricopt_lab.quality.summary import summary_of, usual
from metricopt_lab.quality.tables import markdown

BENCHMARK_VERSION = 1
"""To be bumped by hand when a change of problems, metrics, adapters or of the judging changes figures."""


@final
@dataclass(frozen=True)
class Quality(Experiment[QualityCell, Judge]):
    """For the same number of metric queries, which method gives the better metric on test data?

    Attributes:
        settings: What to run.
        cache: Folder for pre-trained networks; None to train them every time.

    Example:
        >>> [cell.key for cell in Quality(Settings(seeds=1, problems=("a9a_aucpr",), methods=("snes",))).cells()]
        ['a9a_aucpr__snes__0']
    """

    settings: Settings
    cache: Path | None = None

    @property
    def name(self) -> str:
        """What its files are called."""
        return "quality"

    def cells(self) -> list[QualityCell]:
        """The first seed of every problem before the second of any."""
        settings = self.settings
        problems = chosen(settings.problems, list(PROBLEMS), "problem")
        methods = [method.name for method in methods_of(settings)]
        return [
            QualityCell(problem, method, seed, dim)
            for dim, seed, problem in product(settings.dims, range(settings.seeds), problems)
            for method in methods
        ]

    def ground(self, first: QualityCell) -> Judge:
        """A problem with its pre-trained network, and who judges on it."""
        spec = PROBLEMS[first.problem]
        problem = spec.build(seed=first.seed, cache=self.cache, dim=first.film_dim)
        return Judge(problem, kind=spec.kind, resamples=self.settings.resamples)

    def measure(self, ground: Judge, cell: QualityCell) -> Record:
        """What the method gives at each budget."""
        method = next(one for one in methods_of(self.settings) if one.name == cell.method)
        budgets = judged(method, ground, budgets=self.settings.queries, seed=cell.seed)
        return {**shared_facts(method, ground), "budgets": budgets}

    def version_of(self, method: str) -> int:
        """Of a rival, or of the search, whatever its recipe."""
        return version_of(method)

    def made_by(self, cell: QualityCell) -> Record:
        """The version of the method and the settings that figures depend on."""
        recipe = self.settings.recipe if "@" in cell.method else {}
        return {**super().made_by(cell), "settings": {**self._comparable(), **({"recipe": recipe} if recipe else {})}}

    def shown(self, records: Mapping[str, Record]) -> list[Record]:
        """All with the same budgets and resamples, of earlier variants too; the first size of phi first."""
        dims, wanted = self.settings.dims, self._comparable()
        found = [
            record
            for _, record in sorted(records.items())
            if record["film_dim"] in dims and all(record["settings"][name] == wanted[name] for name in wanted)
        ]
        return sorted(found, key=lambda record: dims.index(record["film_dim"]))

    def text(self, records: Sequence[Record]) -> str:
        """Targets met and missed, ranks, duels, acceptance, figures by problem, time."""
        return markdown(rows_of(usual(records)), summary_of(records))

    def draw(self, records: Sequence[Record], folder: Path) -> None:
        """Gains over queries, and wins against each rival."""
        rows = rows_of(usual(records))
        plot_gains(rows, folder / "quality-gain.png")
        plot_wins(rows, folder / "quality-wins.png")

    def _comparable(self) -> dict[str, Any]:
        settings = self.settings
        return {"benchmark": BENCHMARK_VERSION, "queries": list(settings.queries), "resamples": settings.resamples}
