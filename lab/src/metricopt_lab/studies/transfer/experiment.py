"""How many queries each kind of transfer saves, on seven pairs of searches."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from metricopt.search import RECIPE_VERSION
from metricopt.search.transfer import KINDS, CarriedValue
from metricopt.search.transfer.place import place_of
from metricopt.search.transfer.refusals import fitting_kind
from metricopt_lab.cells import EXPERIMENTS, Record, ScaledCell, ScaledExperiment
from metricopt_lab.studies.transfer.pairs import PAIRS, SIZES
from metricopt_lab.studies.transfer.plot import draw_needed
from metricopt_lab.studies.transfer.racing import Race, race_on, rows_of, taught
from metricopt_lab.studies.transfer.text import transfer_text

VERSION = 1
"""Of carrying over, to be bumped with any change of what a search with a value finds; beside the search's own."""

METHODS = ("cold", *KINDS, "first")
"""Without anything; with each kind alone; with the first kind that fits, as `optimize(value=...)` takes it."""


@final
@dataclass(frozen=True)
class Ground:
    """The second problem of a pair with the cost that is to be reached there, and what the first search has learnt.

    Attributes:
        race: On the second problem.
        value: Of the first search.
        records: Of the kinds that were measured: the first that fits is one of them.
    """

    race: Race
    value: CarriedValue
    records: dict[str, Record] = field(default_factory=dict)

    @property
    def first(self) -> str:
        """The kind that `optimize(value=...)` takes."""
        return fitting_kind(self.value, place_of(self.race.problem.task(), rows=rows_of(self.race.queries)))


@EXPERIMENTS.add("transfer")
@final
class TransferStudy(ScaledExperiment[Ground]):
    """Queries that a search needs to reach what a cold one gains, with what another search has taught it."""

    scales = tuple(SIZES)
    data_kind = "pair"

    def known_data(self) -> list[str]:
        """The pairs; at scale smoke one, of rows that come with the package."""
        return ["network_ranking"] if self.settings.scale == "smoke" else list(PAIRS)

    def cells(self) -> list[ScaledCell]:
        """Every kind of transfer for every pair and seed, all pairs of a seed before the next seed."""
        return [
            ScaledCell(self.settings.scale, pair, "plain", seed, PAIRS[pair].second.metric().name, method)
            for seed in range(self.settings.seeds)
            for pair in self.data()
            for method in METHODS
        ]

    def ground(self, first: ScaledCell) -> Ground:
        """The first search, and cold ones of the second problem."""
        pair, queries, seed = PAIRS[first.data], SIZES[first.scale].queries, first.seed
        value = taught(pair.first.build(first.scale, seed), queries=queries, seed=seed)
        return Ground(race_on(pair.second.build(first.scale, seed), queries=queries, seed=seed), value)

    def measure(self, ground: Ground, cell: ScaledCell) -> Record:
        """Queries needed; None if it was refused, or if the goal was not reached."""
        kind = ground.first if cell.method == "first" else cell.method
        if kind not in ground.records:
            value = None if kind == "cold" else ground.value.only(kind)  # pyright: ignore[reportArgumentType]
            ground.records[kind] = ground.race.run(value, seed=cell.seed)
        return dict(ground.records[kind])

    def version_of(self, method: str) -> int:
        """That of the search; with something carried over, that of carrying beside it."""
        return RECIPE_VERSION if method == "cold" else 100 * RECIPE_VERSION + VERSION

    def text(self, records: Sequence[Record]) -> str:
        """A row for each pair and kind, with intervals, and verdicts."""
        return transfer_text(records)

    def draw(self, records: Sequence[Record], folder: Path) -> None:
        """Queries needed by each kind on each pair."""
        draw_needed(records, folder / "transfer.png")
