"""The demo: F1 of a census-income classifier, MetricOpt beside threshold tuning, judged once on test data."""

import copy
import io
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from metricopt.acceptance.bootstrap import Comparison, compare
from metricopt.adapters import OutputAffine, adapt
from metricopt.api.optimize import Result, compare_phi, optimize
from metricopt.core.errors import BudgetError
from metricopt.core.seeding import stream
from metricopt.core.writing import write_bytes, write_json
from metricopt.metrics import f_beta
from metricopt.report import read_run, write_report
from metricopt.run.events import NAME, EventLog, Listener
from metricopt.run.ledger import QueryLedger
from metricopt.run.live import LiveView
from metricopt.run.progress import Progress
from metricopt.task.supervised import SupervisedTask
from metricopt_lab.cells.provenance import provenance
from metricopt_lab.data import DATASETS
from metricopt_lab.problems import Problem, tabular
from metricopt_lab.rivals import BASELINES

DATA = "adult_a9a"


@dataclass(frozen=True)
class Searched:
    """What one of the two methods found.

    Attributes:
        held_out: Original against proposal on the rows that decide.
        test: Original against what was kept, on test data.
        outputs: Outputs of what was kept on the test data.
        best: Best value on the search data after each query, in natural units.
        seconds: Wall time of the search.
    """

    held_out: Comparison
    test: Comparison
    outputs: Tensor
    best: list[float]
    seconds: float

    @property
    def accepted(self) -> bool:
        """Whether the proposal was kept."""
        return self.held_out.accepted

    def to_dict(self) -> dict[str, Any]:
        """Its numbers as plain data; before, after and interval are on test data."""
        return {
            "before": self.test.before,
            "after": self.test.after,
            "interval": list(self.test.interval),
            "level": self.test.level,
            "accepted": self.accepted,
            "queries": len(self.best),
            "seconds": self.seconds,
            "held_out": {**asdict(self.held_out), "accepted": self.accepted},
        }


@dataclass(frozen=True)
class Demo:
    """Both methods on the same problem.

    Attributes:
        problem: Data and pre-trained network.
        metricopt: What `optimize` found.
        threshold: What threshold tuning found with as many queries on the same rows.
        difference: Threshold tuning (before) against MetricOpt (after) on test data.
        rank_correlation: Of the value function with the answers that then came.
        seconds: Wall time of everything, pre-training included.
    """

    problem: Problem
    metricopt: Searched
    threshold: Searched
    difference: Comparison
    rank_correlation: float
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """All numbers as plain data for JSON."""
        problem = self.problem
        parts = {"train": problem.train, "search": problem.search, "held_out": problem.accept, "test": problem.test}
        return {
            "metric": problem.metric.name,
            "goal": problem.metric.goal,
            **self.metricopt.to_dict(),
            "rank_correlation": self.rank_correlation,
            "threshold_tuning": self.threshold.to_dict(),
            "metricopt_over_threshold_tuning": asdict(self.difference),
            "seconds_in_all": self.seconds,
            "rows": {name: len(part) for name, part in parts.items()},
            "seed": problem.seed,
            "data": {"name": DATA, "fingerprint": DATASETS[DATA]().fingerprint, "about": problem.notes},
            "versions": provenance(),
        }


def demo(
    *,
    queries: int = 300,
    seed: int = 0,
    progress: Progress | None = None,
    train_rows: int | None = None,
    run_dir: Path | None = None,
    resume: bool = False,
    watch: Sequence[Listener] = (),
) -> Demo:
    """Pre-train, search with both methods on the same rows, accept on others, and report on test data.

    Args:
        queries: Metric queries each method may spend.
        seed: Of everything random.
        progress: Where to show how far it is.
        train_rows: Fewer training rows, for tests.
        run_dir: Folder for the events of the search, for the report.
        resume: Whether to go on with a search in that folder; otherwise one that is there is forgotten.
        watch: Called with each event.
    """
    if queries < 10:
        raise BudgetError(f"{queries} metric queries were granted; expected at least 10 for the demo to show anything")
    began = time.perf_counter()
    problem = tabular(DATA, f_beta(), seed=seed, sampling="plain", train_rows=train_rows)
    if run_dir is not None and not resume:
        (run_dir / NAME).unlink(missing_ok=True)
    result = optimize(
        problem.net,
        loss=problem.loss,
        metric=problem.metric,
        train=problem.train,
        val=problem.search,
        holdout=problem.accept,
        adapter=problem.adapter,
        queries=queries,
        seed=seed,
        run_dir=run_dir,
        resume=resume,
        watch=watch if progress is None else (LiveView(progress), *watch),
    )
    found, threshold = _found(result, problem), _threshold_tuned(problem, queries)
    return Demo(
        problem,
        found,
        threshold,
        difference=compare(
            problem.metric, (threshold.outputs, found.outputs), problem.test, generator=stream(seed, "difference")
        ),
        rank_correlation=result.rank_correlation,
        seconds=time.perf_counter() - began,
    )


def _found(result: Result, problem: Problem) -> Searched:
    test = result.evaluate(problem.test, seed=problem.seed)
    with torch.no_grad():
        outputs = result.model(problem.test.inputs)
    return Searched(result.comparison, test, outputs, _best(result.ledger, problem), result.seconds)


def _threshold_tuned(problem: Problem, queries: int) -> Searched:
    """One shift of the logit, found by the rival `post_shift` on the rows MetricOpt queried, and judged alike."""
    began = time.perf_counter()
    model = adapt(copy.deepcopy(problem.net), OutputAffine(), seed=problem.seed, example=problem.train.inputs[:2])
    task = SupervisedTask(
        model,
        loss=problem.loss,
        metric=problem.metric,
        train=problem.train,
        search=problem.search,
        ledger=QueryLedger(budget=queries),
    )
    phi = BASELINES["post_shift"].run(task, queries=queries, seed=problem.seed).phi
    pair = torch.stack([torch.zeros_like(phi), phi])
    held_out = compare_phi(model, problem.metric, pair, problem.accept, seed=problem.seed)
    seconds = time.perf_counter() - began
    kept = pair if held_out.accepted else torch.zeros_like(pair)
    test = compare_phi(model, problem.metric, kept, problem.test, seed=problem.seed)
    with torch.no_grad():
        outputs = model.outputs(kept[1:], problem.test.inputs)[0]
    return Searched(held_out, test, outputs, _best(task.ledger, problem), seconds)


def _best(ledger: QueryLedger, problem: Problem) -> list[float]:
    return problem.metric.natural(ledger.best_so_far()).tolist()


def write_demo(done: Demo, out: Path) -> None:
    """Write `result.json` and `progress.png` to a folder and, where it has the events of the search, `report.html`."""
    write_json(out / "result.json", done.to_dict())
    draw_progress(done, out / "progress.png")
    events = out / "run" / NAME
    if events.exists():
        with EventLog(events) as log:
            log.write("rival", {"name": "threshold tuning", "values": done.threshold.best})
            log.write("test", asdict(done.metricopt.test))
        write_report(read_run(out), out / "report.html")


def draw_progress(done: Demo, path: Path) -> None:
    """Draw the best value on the search data over the number of queries, and the test values."""
    # Imported here: it takes a second, and most who import metricopt draw nothing. A Figure of its own, without
    # pyplot, leaves no state behind.
    from matplotlib.figure import Figure

    metric = done.problem.metric
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    for name, searched, colour in (("MetricOpt", done.metricopt, "C0"), ("threshold tuning", done.threshold, "C1")):
        queries = range(1, len(searched.best) + 1)
        axes.step(queries, searched.best, where="post", color=colour, label=f"{name}, search data")
        axes.plot(queries[-1], searched.test.after, "*", color=colour, markersize=12, label=f"{name}, test data")
    axes.axhline(done.metricopt.test.before, color="grey", linestyle="--", label="original, test data")
    axes.set(
        xlabel="metric queries", ylabel=f"{metric.name} ({'higher' if metric.goal == 'max' else 'lower'} is better)"
    )
    axes.legend()
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=120)
    write_bytes(path, picture.getvalue())
