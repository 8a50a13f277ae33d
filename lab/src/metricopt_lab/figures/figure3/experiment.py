"""Figure 3 of the paper: the ordinal term, prediction error against the final metric, and ways of meta-testing."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import final

import torch
from torch import Tensor

from metricopt.paper.diagnostics import health
from metricopt.paper.value_function import ValueFunction
from metricopt_lab.cells import EXPERIMENTS, Record, ScaledCell, ScaledExperiment
from metricopt_lab.data.cifar10 import FINGERPRINT
from metricopt_lab.figures.figure3.bench import EFFORTS, SCHEMES, VARIANTS, Bench, Scheme
from metricopt_lab.figures.figure3.plot import draw_rows
from metricopt_lab.figures.figure3.text import PAIR, figure3_text
from metricopt_lab.figures.film_paths import film_problem
from metricopt_lab.problems.cifar import CIFAR_SCALES


@EXPERIMENTS.add("figure3")
@final
class Figure3(ScaledExperiment[Bench]):
    """The paper's Figure 3: value functions with and without L_oe, their errors, and what following them gains."""

    scales = tuple(CIFAR_SCALES)
    needs_cifar10 = True
    data_kind = "network"

    def known_data(self) -> list[str]:
        """The networks that the scale has."""
        return list(EFFORTS[self.settings.scale])

    def cells(self) -> list[ScaledCell]:
        """Every value function and every way of following one, for each network and seed."""
        scale = self.settings.scale
        return [
            ScaledCell(scale, network, "plain", seed, kind, name)
            for network in self.data()
            for seed in range(self.settings.seeds)
            for kind, names in (("value", EFFORTS[scale][network].variants), ("scheme", SCHEMES))
            for name in names
        ]

    def ground(self, first: ScaledCell) -> Bench:
        """One problem and one set of paths for all the cells."""
        problem = film_problem(first.data, scale=first.scale, seed=first.seed)
        return Bench(problem, EFFORTS[first.scale][first.data])

    def measure(self, ground: Bench, cell: ScaledCell) -> Record:
        """A value function, or a way of following the usual one."""
        before = ground.before
        began = time.perf_counter()
        measured = measured_value if cell.metric == "value" else measured_scheme
        return {
            "test_before": before,
            **measured(ground, cell.method),
            "seconds": time.perf_counter() - began,
            "problem": ground.problem.notes,
            "fingerprint": FINGERPRINT,
        }

    def text(self, records: Sequence[Record]) -> str:
        """A table for each panel, and what becomes of the paper's claims."""
        return figure3_text(records)

    def draw(self, records: Sequence[Record], folder: Path) -> None:
        """Three panels for each network."""
        draw_rows(records, folder / "figure3.png")


def measured_value(bench: Bench, name: str) -> Record:
    """Predictions of a value function for observations it never saw, and where following it ends on test images."""
    value = bench.value(VARIANTS[name])
    phi, costs = bench.unseen
    report = health(value, phi, costs)
    record = {
        **_followed(bench, value, SCHEMES["both-exact"]),
        "prediction_error": report.error,
        "rank_correlation": report.rank_correlation,
        "spread": report.spread,
        "observations": report.observations,
    }
    if name not in PAIR:
        return record
    # Each seed has search images of its own, so that costs compare by their change only.
    before = bench.problem.costs(torch.zeros(1, bench.task.dim), "search").float()
    return {**record, "predicted_change": _rounded(value(phi) - before), "true_change": _rounded(costs - before)}


def measured_scheme(bench: Bench, name: str) -> Record:
    """Where a way of following the usual value function ends on test images."""
    return _followed(bench, bench.usual, SCHEMES[name])


def _followed(bench: Bench, value: ValueFunction, scheme: Scheme) -> Record:
    found = bench.followed(value, scheme)
    return {
        "queries": len(found.tried) + (0 if scheme.signal == "loss" else bench.queries),
        "rate": found.rate,
        "search_costs": {f"{rate:g}": cost for rate, cost in found.tried.items()},
        # After all choices, of which it decides none.
        "test_cost": float(bench.problem.costs(found.path[-1:], "test")),
    }


def _rounded(values: Tensor) -> list[float]:
    return [round(value, 5) for value in values.tolist()]
