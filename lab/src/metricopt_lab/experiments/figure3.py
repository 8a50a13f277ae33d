"""Figure 3 of the paper: the ordinal term, prediction error against the final metric, and ways of meta-testing."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import final

import torch
from torch import Tensor

from metricopt.paper.diagnostics import health
from metricopt.paper.value_function import ValueFunction
from metricopt_lab.data.cifar10 import FINGERPRINT
from metricopt_lab.experiments.experiment import EXPERIMENTS, Cell, Experiment, Record, Settings, chosen
from metricopt_lab.experiments.figure3_bench import EFFORTS, SCHEMES, VARIANTS, Bench, Scheme
from metricopt_lab.experiments.figure3_plot import draw_rows
from metricopt_lab.experiments.figure3_text import PAIR, figure3_text
from metricopt_lab.experiments.film_paths import film_problem
from metricopt_lab.experiments.provenance import provenance
from metricopt_lab.problems.cifar import CIFAR_SCALES


@EXPERIMENTS.add("figure3")
@final
class Figure3(Experiment):
    """The paper's Figure 3: value functions with and without L_oe, their errors, and what following them gains."""

    scales = tuple(CIFAR_SCALES)
    needs_cifar10 = True

    def cells(self, settings: Settings) -> list[Cell]:
        """Every value function and every way of following one, for each network and seed."""
        efforts = EFFORTS[settings.scale]
        return [
            Cell(settings.scale, network, "plain", seed, kind, name)
            for network in chosen(settings.data, tuple(efforts), kind="network")
            for seed in range(settings.seeds)
            for kind, names in (("value", efforts[network].variants), ("scheme", SCHEMES))
            for name in names
        ]

    def measure(self, cells: Sequence[Cell]) -> Iterator[Record]:
        """One problem and one set of paths for all the cells."""
        first = cells[0]
        problem = film_problem(first.data, scale=first.scale, seed=first.seed)
        bench = Bench(problem, EFFORTS[first.scale][first.data])
        before = float(problem.costs(torch.zeros(1, bench.task.dim), "test"))
        for cell in cells:
            began = time.perf_counter()
            measured = (
                measured_value(bench, cell.method) if cell.metric == "value" else measured_scheme(bench, cell.method)
            )
            seconds = time.perf_counter() - began
            yield {**asdict(cell), "test_before": before, **measured, "seconds": seconds, "problem": problem.notes,
                   "fingerprint": FINGERPRINT, "versions": provenance()}  # fmt: skip

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
