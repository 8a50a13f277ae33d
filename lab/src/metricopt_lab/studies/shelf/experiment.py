"""What the entries of the shelf save, in searches of other rows, other networks and other subjects."""

from collections.abc import Sequence
from pathlib import Path
from typing import final

from metricopt.search import RECIPE_VERSION
from metricopt_lab.cells import EXPERIMENTS, Record, ScaledCell, ScaledExperiment
from metricopt_lab.studies.shelf.sources import ELSEWHERE, SOURCES, learnt
from metricopt_lab.studies.shelf.text import shelf_text
from metricopt_lab.studies.transfer.experiment import VERSION
from metricopt_lab.studies.transfer.pairs import SIZES
from metricopt_lab.studies.transfer.racing import Race, race_on


@EXPERIMENTS.add("shelf")
@final
class ShelfStudy(ScaledExperiment[Race]):
    """Queries that a search needs with a value function from the shelf, elsewhere than where that was learnt."""

    scales = tuple(SIZES)
    data_kind = "place"

    def known_data(self) -> list[str]:
        """The places where entries are tried; at scale smoke one, of rows that come with the package."""
        return ["incomes_aucpr"] if self.settings.scale == "smoke" else list(ELSEWHERE)

    def cells(self) -> list[ScaledCell]:
        """A cold search and one with each entry that is tried there, all places of a seed before the next seed."""
        return [
            ScaledCell(self.settings.scale, place, "plain", seed, ELSEWHERE[place].metric().name, method)
            for seed in range(self.settings.seeds)
            for place in self.data()
            for method in ("cold", *(name for name, source in SOURCES.items() if place in source.elsewhere))
        ]

    def ground(self, first: ScaledCell) -> Race:
        """The cost that cold searches reach there."""
        problem, queries = ELSEWHERE[first.data].build(first.scale, first.seed), SIZES[first.scale].queries
        return race_on(problem, queries=queries, seed=first.seed)

    def measure(self, ground: Race, cell: ScaledCell) -> Record:
        """Queries needed; None if the goal was not reached."""
        value = None if cell.method == "cold" else learnt(cell.method, cell.scale)
        return ground.run(value, seed=cell.seed)

    def version_of(self, method: str) -> int:
        """That of the search; with something carried over, that of carrying beside it."""
        return RECIPE_VERSION if method == "cold" else 100 * RECIPE_VERSION + VERSION

    def text(self, records: Sequence[Record]) -> str:
        """A row for each entry and place."""
        return shelf_text(records)

    def draw(self, records: Sequence[Record], folder: Path) -> None:
        """Nothing: the table is short."""

    @property
    def pictures(self) -> tuple[str, ...]:
        """None."""
        return ()
