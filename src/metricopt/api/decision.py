"""Whether what was found is kept: on rows that it has not seen, or less the luck of having seen them."""

import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from typing import NamedTuple

import torch
from torch import Tensor

from metricopt.acceptance.comparison import Comparison, Kept
from metricopt.acceptance.judge import Judge
from metricopt.acceptance.luck import judged_rungs
from metricopt.acceptance.panel import panel_of
from metricopt.api.plan import Plan
from metricopt.api.problem import Problem
from metricopt.api.result import Result
from metricopt.core.errors import MetricFailureWarning
from metricopt.core.records import Outcome
from metricopt.crossfit import WIDENING
from metricopt.crossfit.choose import Chosen
from metricopt.metrics import Constraint
from metricopt.metrics.within_parts import as_a_whole
from metricopt.run.ledger import QueryLedger
from metricopt.task.loss_line import loss_line
from metricopt.task.oracle import Oracle
from metricopt.task.supervised import SupervisedTask


class Decision(NamedTuple):
    """What was judged.

    Attributes:
        proposal: The phi that was judged against the original, (dim,).
        comparison: The two of them.
        kept: The constraints there.
    """

    proposal: Tensor
    comparison: Comparison
    kept: tuple[Kept, ...]


def judge_of(oracle: Oracle, task: SupervisedTask, problem: Problem, chosen: Chosen | None) -> Judge:
    """Who decides: of finetuned weights without a holdout, on predictions by networks that have not seen the rows."""
    judge = _judge(oracle, task, problem, chosen)
    judge.panel = panel_of(oracle)
    return judge


def _judge(oracle: Oracle, task: SupervisedTask, problem: Problem, chosen: Chosen | None) -> Judge:
    ledger, seed = oracle.ledger, problem.seed
    if chosen is None:
        rows = problem.val if problem.holdout is None else problem.holdout
        return Judge(task.model, rows, ledger=ledger, seed=seed, most_rows=task.most_rows)
    if problem.holdout is not None:
        return Judge(task.model, problem.holdout, ledger=ledger, seed=seed)
    judge = Judge(
        task.model,
        problem.val,
        ledger=ledger,
        seed=seed,
        widening=WIDENING,
        most_rows=task.most_rows,
        forward=None if task.cache.recall is None else task.cache,
    )
    judge.know(chosen.outcome.phi, chosen.shown, whole=task.metric.on == "outputs")
    return judge


def decided(
    oracle: Oracle,
    task: SupervisedTask,
    judge: Judge,
    outcome: Outcome,
    *,
    level: float,
    less_luck: bool,
) -> Decision:
    """The best of what was found that keeps the constraints, against the original.

    Args:
        oracle: Who asked in the search.
        task: What it asked about.
        judge: Who decides.
        outcome: What was found.
        level: Of the two-sided interval that must be above zero.
        less_luck: Whether the judge's rows were searched, so that the luck of that is taken off.
    """
    oracle.ledger.pulse.phase("decision")
    rungs, lucky = judged_rungs(oracle, outcome) if less_luck else (outcome.rungs(), ())
    checks = [_checked(judge, oracle.keep, rung) for rung in rungs]
    # If none keeps every constraint, the last one is turned down for that.
    keeping = [n for n, kept in enumerate(checks) if all(each.holds for each in kept)] or [len(rungs) - 1]
    proposal, comparison = judge.keep_best(task.metric, rungs[keeping], among=len(rungs), level=level, luck=lucky)
    kept = next(checks[n] for n in keeping if torch.equal(rungs[n], proposal))
    return Decision(proposal, comparison, kept)


def _checked(judge: Judge, keep: Sequence[Constraint], phi: Tensor) -> tuple[Kept, ...]:
    """The constraints at one phi (dim,) on the judge's rows."""
    pair = torch.stack([torch.zeros_like(phi), phi])
    return tuple(judge.check(constraint, pair) for constraint in keep)


def concluded(
    task: SupervisedTask,
    judge: Judge,
    decision: Decision,
    *,
    ledger: QueryLedger,
    outcome: Outcome,
    correlation: float,
    began: float,
    plan: Plan,
) -> Result:
    """The result that follows, whose model is at the accepted phi or the original; it is written down."""
    if ledger.stopped:
        warnings.warn(f"the search ended early: {ledger.stopped}", MetricFailureWarning, stacklevel=3)
    ledger.pulse.phase("landscape")
    line = loss_line(task, decision.proposal)
    result = Result(
        model=task.model,
        metric=as_a_whole(task.metric),
        comparison=decision.comparison,
        proposal=decision.proposal,
        outcome=outcome,
        ledger=ledger,
        seconds=time.perf_counter() - began + (0.0 if ledger.journal is None else ledger.journal.spent),
        rank_correlation=correlation,
        kept=decision.kept,
        stopped=ledger.stopped,
        plan=plan.to_dict(),
    )
    pair = torch.stack([torch.zeros_like(decision.proposal), decision.proposal])
    task.model.phi.data.copy_(pair[int(result.accepted)])
    constraints = [asdict(each) for each in result.kept]
    accepted = {**asdict(result.comparison), "accepted": result.accepted, "constraints": constraints}
    ledger.note("accepted", {**accepted, "changes": judge.changes(task.metric, pair)})
    ledger.note("landscape", line)
    ledger.note("result", {**result.to_dict(), "proposal": result.proposal, "phi": task.model.phi})
    return result
