"""What was tried to make MetricOpt (learned) work: meta-validation on splits that no table reports."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, final

import torch

from metricopt.losses import Loss, aucpr, cross_entropy, raw_logits
from metricopt.paper.learned.equation_s1_rule import WITH_TIME, MlpRule
from metricopt.paper.learned.settings import MetaTraining
from metricopt.paper.learned.whole_rule import WholeRule
from metricopt_lab.cells import EXPERIMENTS, Record, ScaledCell, ScaledExperiment
from metricopt_lab.data.cifar10 import FINGERPRINT
from metricopt_lab.figures.film_paths import film_problem, loss_led_path, tuned
from metricopt_lab.markdown import short, spread, table
from metricopt_lab.optimizers.own import OWN, OWN_VERSION, own_run
from metricopt_lab.problems import Problem
from metricopt_lab.problems.cifar import CIFAR_SCALES

FIRST = 101
"""Seed of the first problem: splits, FiLM matrices and mini-batches that nothing else here reports."""

STEPS = {"smoke": 10, "small": 200, "paper": 200}
RATES = (0.03, 0.1, 0.3)
AUCPR: Loss = partial(aucpr, scores=raw_logits)


@dataclass(frozen=True)
class Attempt:
    """One way to learn an optimizer.

    Attributes:
        about: What is different about it, in words.
        changes: Of the settings of the whole rule at the scale; None for Adam on the loss, which learns nothing.
        loss: What is followed.
    """

    about: str
    changes: Mapping[str, Any] | None
    loss: Loss = cross_entropy


_SHARED = {"rule": MlpRule(features=WITH_TIME, lr=0.1), "std": 0.03, "meta_lr": 0.03}
ATTEMPTS: Mapping[str, Attempt] = MappingProxyType(
    {
        "adam": Attempt("Adam on cross-entropy", None),
        "shared": Attempt("Eq. S1, one MLP shared by the coordinates", _SHARED),
        "shared_short_steps": Attempt(
            "the same with steps a fifth as long", {**_SHARED, "rule": MlpRule(WITH_TIME, lr=0.02)}
        ),
        "shared_normalised": Attempt(
            "the same, updates of root mean square 1", {**_SHARED, "rule": MlpRule(WITH_TIME, lr=0.1, normalised=True)}
        ),
        "whole": Attempt("Eq. S1, one MLP for all of phi", {}),
        "whole_lambda_1": Attempt("the same with lambda = 1", {"weight": 1.0}),
        "whole_slow": Attempt("the same with a third of the meta-rate", {"meta_lr": 0.003}),
        "whole_cautious": Attempt("the same, f raised by the spread of its ensemble", {"caution": 1.0}),
        "adam_aucpr": Attempt("Adam on the AUCPR loss", None, AUCPR),
        "shared_aucpr": Attempt("Eq. S1 shared, AUCPR loss", _SHARED, AUCPR),
        "shared_aucpr_normalised": Attempt(
            "the same, updates of root mean square 1",
            {**_SHARED, "rule": MlpRule(WITH_TIME, lr=0.1, normalised=True)},
            AUCPR,
        ),
        "whole_aucpr": Attempt("Eq. S1 for all of phi, AUCPR loss", {"rule": WholeRule(lr=0.1)}, AUCPR),
    }
)
"""What was tried, by name."""


@EXPERIMENTS.add("learned-attempts")
@final
class LearnedAttempts(ScaledExperiment[Problem]):
    """What was tried with the learned optimizer, judged on images that accept, of splits that no table reports."""

    scales = tuple(CIFAR_SCALES)
    needs_cifar10 = True

    def cells(self) -> list[ScaledCell]:
        """Every attempt for each seed."""
        return self.every_method("small_convnet", "aucpr", tuple(ATTEMPTS))

    def ground(self, first: ScaledCell) -> Problem:
        """A problem of its own for each seed."""
        return film_problem("small_convnet", scale=first.scale, seed=FIRST + first.seed)

    def measure(self, ground: Problem, cell: ScaledCell) -> Record:
        """Cost on the images that accept, which neither meta-training nor the choice of a rate has seen."""
        attempt, began = ATTEMPTS[cell.method], time.process_time()
        made = _adam(ground, attempt, STEPS[cell.scale]) if attempt.changes is None else _learned(ground, attempt, cell)
        path = made.pop("path")
        marks = torch.linspace(0, len(path) - 1, 5).round().long()
        return {
            **made,
            "steps": marks.tolist(),
            "accept_costs": [round(cost, 6) for cost in ground.costs(path[marks], "accept").tolist()],
            "seconds": round(time.process_time() - began, 1),
            "about": attempt.about,
            "problem": ground.notes,
            "fingerprint": FINGERPRINT,
        }

    def version_of(self, method: str) -> int:  # noqa: ARG002
        """That of optimizers that are meta-trained in a run."""
        return OWN_VERSION

    def text(self, records: Sequence[Record]) -> str:
        """One row an attempt."""
        header = ["what", "runs", "1 - AUCPR at the end", "against the start", "queries", "meta-loss, first and last"]
        header += ["rank correlation of f", "CPU seconds"]
        rows = [_row([r for r in records if r["method"] == name]) for name in ATTEMPTS if _of(records, name)]
        return (
            f"# What was tried, scale {records[0]['scale']}\n\nOn the images that accept, of splits, FiLM matrices and "
            f"mini-batches from seed {FIRST} on, which no table or figure reports; rates are chosen on the images that "
            f"are queried.\n\n{table(header, rows)}\n"
        )

    @property
    def pictures(self) -> tuple[str, ...]:
        """None."""
        return ()


def _of(records: Sequence[Record], name: str) -> list[Record]:
    return [record for record in records if record["method"] == name]


def _adam(problem: Problem, attempt: Attempt, steps: int) -> Record:
    oracle = problem.oracle(queries=None, loss=attempt.loss)

    def path_at(rate: float) -> torch.Tensor:
        return loss_led_path(oracle.task, partial(torch.optim.Adam, lr=rate), steps=steps, seed=problem.seed)

    found = tuned(oracle, path_at, RATES)
    return {"path": found.path, "rate": found.rate, "queries": oracle.ledger.used, "meta_loss": [], "correlation": None}


def _learned(problem: Problem, attempt: Attempt, cell: ScaledCell) -> Record:
    assert attempt.changes is not None
    settings: MetaTraining = replace(OWN[cell.scale], **attempt.changes)
    made = own_run(problem, settings, steps=STEPS[cell.scale], loss=attempt.loss)
    return {
        "path": made.found.path,
        "rate": made.found.rate,
        "queries": made.trained.queries + made.queries,
        "meta_loss": [round(each.objective, 4) for each in made.trained.history if each.updated],
        "correlation": made.correlation,
    }


def _row(records: Sequence[Record]) -> list[str]:
    ends = [record["accept_costs"][-1] for record in records]
    gains = [record["accept_costs"][-1] - record["accept_costs"][0] for record in records]
    first = records[0]
    return [
        first["about"],
        str(len(records)),
        spread(ends),
        spread(gains, sign=True),
        str(first["queries"]),
        f"{first['meta_loss'][0]:.2f}, {first['meta_loss'][-1]:.2f}" if first["meta_loss"] else "—",
        "—" if first["correlation"] is None else short(first["correlation"]),
        f"{sum(record['seconds'] for record in records) / len(records):.0f}",
    ]
