"""The front door: a model, a loss, a metric and data in; a model that is better, or the original, out."""

import copy
import math
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from metricopt import __version__
from metricopt.acceptance.comparison import Kept
from metricopt.acceptance.judge import Judge
from metricopt.acceptance.luck import luck
from metricopt.acceptance.panel import panel_of
from metricopt.adapters import AdaptedModel, Adapter, DynamicBias, EmbeddingAffine, FiLM, OutputAffine, adapt
from metricopt.adapters.detector import detect, is_detector
from metricopt.adapters.freezing import placement
from metricopt.adapters.saved import adapter_facts
from metricopt.api.detectors import check_boxes, detector_adapter
from metricopt.api.plan import Plan
from metricopt.api.preflight import (
    check_confidence,
    check_embeddings,
    check_loss,
    check_parts,
    check_plan,
    check_queries,
    check_workers,
)
from metricopt.api.result import Result
from metricopt.api.transfer import Transfer, carried_value
from metricopt.api.watching import Watch
from metricopt.api.ways import Effort, Tune, learner_of, settings_of, way_of, within_folds
from metricopt.api.weights import crossfitted, forget
from metricopt.core.errors import AdapterError, BudgetError, FileFormatError, MetricFailureWarning
from metricopt.core.reading import Read
from metricopt.core.records import Outcome
from metricopt.core.registry import one_of
from metricopt.core.seeding import stream
from metricopt.core.tree import Call, Tree
from metricopt.core.tree import call as default_call
from metricopt.crossfit import WIDENING, CrossFit
from metricopt.crossfit.choose import Chosen
from metricopt.data.dataset import Data
from metricopt.data.lazy import Collate
from metricopt.data.modules import both_of
from metricopt.data.sampling import PerClass, Sampling
from metricopt.data.splits import cut, facts_of, three_sets
from metricopt.metrics import Constraint, as_metric
from metricopt.metrics.fingerprint import metric_facts, metric_fingerprint
from metricopt.metrics.within_parts import as_a_whole
from metricopt.paper.preset import (
    PaperPreset,
    check_enough,
    follow,
    learn,
    paper_adapter,
    paper_stages,
    warn_of_the_letter,
)
from metricopt.run.events import NAME, Event, Listener, read_events
from metricopt.run.folder import run_folder
from metricopt.run.journal import open_journal
from metricopt.run.ledger import QueryLedger
from metricopt.run.live import watching as progress_of
from metricopt.run.workers import hired
from metricopt.search import Recipe, walk
from metricopt.search.starts import loss_starts
from metricopt.task.base import Loss
from metricopt.task.desk import Desk, desk_of
from metricopt.task.loss_line import loss_line
from metricopt.task.oracle import Oracle
from metricopt.task.supervised import SupervisedTask

__all__ = ["Preset", "Result", "adapted", "optimize", "propose"]

Preset = Literal["default", "paper", "paper-letter"]


def optimize(
    net: nn.Module,
    *,
    metric: Any,
    train: Any = None,
    val: Any = None,
    datamodule: Any = None,
    loss: Loss | None = None,
    queries: int = 300,
    holdout: Any = None,
    adapter: Adapter | None = None,
    learn_from_val: bool = True,
    preset: Preset = "default",
    recipe: Recipe | None = None,
    value: Any = None,
    sampling: Sampling | None = None,
    batch_size: int = 256,
    seed: int = 0,
    ledger: QueryLedger | None = None,
    keep: Sequence[Constraint] = (),
    run_dir: Path | str | None = None,
    resume: bool = False,
    watch: Sequence[Listener] = (),
    max_failures: int | None = None,
    call: Call = default_call,
    collate: Collate | None = None,
    read: Read = None,
    tune: Tune | None = None,
    effort: Effort | CrossFit = "default",
    confidence: float = 0.9,
    progress: bool | None = None,
    workers: int = 1,
    executor: Any = None,
) -> Result:
    """Finetune `net` until `metric` is better, within `queries` metric queries.

    Where the labels of `val` may be learnt from, the weights are finetuned, cross-fitted: each row is predicted by
    networks that have not seen it, so that all rows serve to learn, to choose and to decide. Where they may not, or
    with `tune="adapter"`, a small adapter is searched and the weights stay as they are: the paper's setting.

    Args:
        net: A pre-trained model of any floating type, on any device or spread over several; its weights and buffers
            stay as they are. Of one in half precision an adapter is searched, in single precision.
        metric: A `Metric`, the name of one, a torchmetrics object or a scikit-learn scorer.
        train: Data for the loss: (inputs, targets), a mapping with labels, a Dataset or a DataLoader. Inputs are a
            tensor, a tuple (`net(*x)`), a mapping (`net(**x)`) or a list with one item an example; a Dataset is read
            batch by batch, never whole. They may be on another device than the model; they go there batch by batch, or
            at once where they, or activations in their place, fit 1 GiB.
        val: Data the metric is queried on. Where an adapter is searched and labels may be learnt from, or constraints
            are to be kept, 40% of it is set aside to accept the result unless `holdout` is given; otherwise all of it
            is searched, and the result is accepted if its gain is more than the luck of such a search. Inputs alone do
            if the metric knows the truth (`hidden`).
        datamodule: What gives both as loaders, a LightningDataModule, in place of `train` and `val`.
        loss: `loss(output, targets)` giving a scalar, the one it was trained with or another; `output` is whatever the
            network gives. One whose second argument is called `batch` gets the whole batch. Without a loss, the
            model's own (`out.loss`) where it gives one, cross-entropy for class targets otherwise.
        queries: How often the metric may be evaluated.
        holdout: Data that accept the result; never queried in the search.
        adapter: What phi modulates; by default FiLM (a dynamic bias in nets without normalisation) and the outputs.
        learn_from_val: Whether the loss may be finetuned on the labels of `val` too.
        preset: "default"; "paper" for the paper's two stages with two declared deviations, its own adapter unless one
            is given, and as many tasks as the queries pay for; "paper-letter" for its text to the letter, which fails.
        recipe: Settings of the default search.
        value: What another search has learnt, to begin with: its `Result`, the `Path` that `Result.save_value` wrote,
            the name of a value function on the shelf, or a `CarriedValue`. It is let go of where it misleads.
        sampling: Mini-batches as they come, "plain", with every class equally often, "balanced", or with several rows
            of a class, `PerClass(4)`, as is the default for metrics of retrieval.
        batch_size: Rows a mini-batch.
        seed: Everything random depends on it alone.
        ledger: Counts the queries; pass one with a listener to watch.
        keep: Constraints: what must hold of other metrics, in the search and on the held-out data.
        run_dir: Folder for the event log, which the report reads, and for the result.
        resume: Whether a run in that folder that was killed is continued; no query is paid twice, and the result has
            the bits of an uninterrupted run. Without it, a folder that holds a run is refused.
        watch: Called with each event (metricopt.run.events) as it happens.
        max_failures: Failed queries after which the search stops and what was found so far is judged; by default 20%
            of the queries, and at least 10.
        call: `call(net, inputs)`, where the network is not called as `net(x)`, `net(*x)` or `net(**x)`.
        collate: Makes a batch of a list of rows of a Dataset; a DataLoader brings its own.
        read: Which tensor of the output labels, scores and views are made of: a name, a place or a function. By itself
            a tensor, `.logits`, `["out"]` and the like, or a tuple's first is found.
        tune: "weights" finetunes all weights, "light" the last layer, normalisation and biases, "adapter" none of them.
            By itself "weights" where labels may be learnt from ("light" of networks too large to be copied for every
            fold), "adapter" where they may not or an adapter or settings of its search are given.
        effort: "quick", "default", or settings of the finetuning.
        confidence: How sure it must be that the result is better for it to be accepted.
        progress: Whether the plan, the phase, the best value so far and the time left are shown on stderr; by default
            in a terminal and in a notebook.
        workers: How many calls of the metric are made at the same time. With one everything depends on the seed alone;
            with more the search asks on while answers are under way, so what it asks next depends on which came first.
        executor: Who makes the calls: processes of this machine if None, the workers of a
            `concurrent.futures.Executor`, or those of a Ray cluster with "ray".

    Example:
        >>> from sklearn.metrics import f1_score
        >>> from metricopt.losses import cross_entropy
        >>> from metricopt.metrics import Metric
        >>> draw = torch.Generator().manual_seed(0)
        >>> x = torch.randn(1500, 4, generator=draw)
        >>> y = (x[:, 0] + 0.5 * torch.randn(1500, generator=draw) > 1).long()
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))  # stands for a trained one
        >>> result = optimize(net, loss=cross_entropy, metric=Metric(f1_score, on="labels", goal="max"),
        ...                   train=(x[:500], y[:500]), val=(x[500:], y[500:]), queries=40)
        >>> result.accepted, result.ledger.used <= 40
        (True, True)
    """
    began = time.perf_counter()
    metric = as_metric(metric)
    one_of(preset, get_args(Preset), what="preset")
    check_plan(queries, recipe, max_failures, preset=preset)
    carried = carried_value(value, preset=preset)
    queries = int(queries)
    check_parts(net, adapter, loss, keep)
    settings = settings_of(effort, batch_size)
    check_confidence(confidence)
    check_workers(workers, executor)
    if resume and run_dir is None:
        raise FileFormatError("resume is True without a run_dir; expected the folder of a run: pass it as run_dir")
    way = way_of(
        tune,
        metric=metric,
        keep=keep,
        learns=learn_from_val,
        adapter=adapter,
        search=recipe is not None or carried is not None or preset != "default",
        net=net,
    )
    train, val = both_of(train, val, datamodule)
    # Nothing but the answers has chosen then, and how much luck that makes is known.
    visible = learn_from_val and not metric.hidden
    searched = way == "adapter" and preset == "default" and holdout is None and not visible and not keep
    sets = three_sets(
        train,
        val,
        holdout,
        seed=seed,
        hidden=metric.hidden,
        dtype=placement(net)[1],
        collate=collate,
        whole=way != "adapter" or searched,
        by_class=metric.resampling.by_class,
    )
    if is_detector(net) and call is default_call:
        check_boxes(net, sets)
        call = detect
    check_queries(metric, sets)
    how: dict[str, Any] = {"example": sets["train"].inputs_at(slice(0, 2)), "seed": seed, "call": call, "read": read}
    usual: Sampling = PerClass() if metric.resampling.by_class else "plain"
    about: dict[str, Any] = {
        "loss": loss,
        "metric": metric,
        "train": sets["train"],
        "batch_size": batch_size,
        "sampling": usual if sampling is None else sampling,
        "labels_visible": visible,
    }
    learner = (
        None if way == "adapter" else learner_of(net, way, settings, sets["val"], how, about, insist=tune is not None)
    )
    if learner is None:
        if "holdout" not in sets and not searched:
            sets["val"], sets["holdout"] = cut(sets["val"], seed, by_class=metric.resampling.by_class)
        model = adapted(net, adapter, embeds=metric.on == "embeddings", preset=preset, **how)
        task = SupervisedTask(model, search=sets["val"], **about)
        check_loss(task)
        check_embeddings(task)
    else:
        task, folds = learner.task, learner.settings.folds
        keep = [replace(each, metric=within_folds(each.metric, sets["val"], folds, seed=seed)) for each in keep]
    oracle = Oracle(task, _granted(ledger, queries, max_failures), keep=keep)
    recipe = Recipe() if recipe is None else recipe
    transfer = Transfer(task, recipe, carried, queries=queries)
    facts = {
        "queries": queries,
        "seed": seed,
        "preset": preset,
        "tune": "adapter" if learner is None else learner.tuned,
        "recipe": asdict(recipe) if learner is None else asdict(learner.settings),
        "confidence": confidence,
        "max_failures": oracle.ledger.max_failures,
        **({} if workers == 1 else {"workers": workers}),
        **transfer.facts,
    }
    folder = run_folder(run_dir)
    heard: list[Event] = []
    ledger = oracle.ledger
    with ExitStack() as opened:
        shown = opened.enter_context(progress_of(progress))
        listeners = (*watch, *shown, lambda event: None if event["event"] == "phase" else heard.append(event))
        start = _start(oracle, facts, sets)
        ledger.journal = opened.enter_context(open_journal(folder, start, resume=resume, listeners=listeners))
        ledger.pulse.tell = ledger.journal.tell
        oracle.crew = opened.enter_context(hired(_desk(oracle, sets), workers=workers, executor=executor))
        try:
            watching = Watch(oracle, sets, queries=queries, searches=learner is None)
            watching.begin()
            if learner is not None:
                chosen = crossfitted(oracle, learner, queries=queries, seed=seed, folder=folder, watching=watching)
                outcome, correlation = chosen.outcome, math.nan
                judge = _judge(oracle, sets, chosen, seed=seed)
            else:
                outcome, correlation = propose(
                    oracle,
                    queries=queries,
                    preset=preset,
                    recipe=recipe,
                    seed=seed,
                    watching=watching,
                    transfer=transfer,
                )
                rows = sets["val"] if searched else sets["holdout"]
                judge = Judge(task.model, rows, ledger=ledger, seed=seed, most_rows=task.most_rows)
            judge.panel = panel_of(oracle)
            level = 2 * confidence - 1
            result = _judged(
                oracle, judge, outcome, correlation, level=level, searched=searched, began=began, plan=watching.plan
            )
            if folder is not None:
                result.save(folder)
                forget(folder)
        finally:
            ledger.journal = ledger.pulse.tell = oracle.crew = None
    events = tuple(heard if folder is None else read_events(folder / NAME))
    return replace(result, events=events, carried=transfer.learnt())


def _judge(oracle: Oracle, sets: dict[str, Data], chosen: Chosen, *, seed: int) -> Judge:
    """On a holdout where there is one; otherwise on predictions by networks and biases that have not seen the rows."""
    task = _supervised(oracle)
    if "holdout" in sets:
        return Judge(task.model, sets["holdout"], ledger=oracle.ledger, seed=seed)
    judge = Judge(
        task.model,
        sets["val"],
        ledger=oracle.ledger,
        seed=seed,
        widening=WIDENING,
        most_rows=task.most_rows,
        forward=None if task.cache.recall is None else task.cache,
    )
    judge.know(chosen.outcome.phi, chosen.shown, whole=task.metric.on == "outputs")
    return judge


def _desk(oracle: Oracle, sets: dict[str, Data]) -> Desk:
    """What workers need to ask the metric and those of the constraints, in the search and for the decision."""
    task = _supervised(oracle)
    metrics = [task.metric, *(each.metric for each in oracle.keep)]
    return desk_of(metrics, {"search": task.search, "holdout": sets.get("holdout", task.search)}, task.model)


def _granted(ledger: QueryLedger | None, queries: int, max_failures: int | None) -> QueryLedger:
    """A ledger with room for the queries; the user's own, whose grant stays what it is."""
    ledger = QueryLedger() if ledger is None else ledger
    if ledger.budget is None:
        ledger.budget = ledger.used + queries
    if ledger.remaining < queries:
        raise BudgetError(
            f"the ledger grants {ledger.remaining} more metric queries, but queries is {queries}; expected as many: "
            f"grant more, or ask for fewer"
        )
    ledger.max_failures = max(10, queries // 5) if max_failures is None else max_failures
    return ledger


def _start(oracle: Oracle, settings: Event, sets: dict[str, Data]) -> Event:
    """What a run is determined by; one that differs in any of it is another run."""
    task = _supervised(oracle)
    return {
        "settings": {
            **settings,
            "loss": task.loss_rule.name,
            "sampling": task.sampling,
            "batch_size": task.batch_size,
            "learn_from_val": task.labels_visible,
        },
        "metric": metric_facts(as_a_whole(task.metric)),
        "constraints": [
            {"text": each.text, "confidence": each.confidence, "function": metric_fingerprint(each.metric)}
            for each in oracle.keep
        ],
        "model": {**adapter_facts(task.model), "dim": task.dim},
        "data": facts_of(sets),
        "versions": {"metricopt": __version__, "torch": torch.__version__},
    }


def _judged(
    oracle: Oracle,
    judge: Judge,
    outcome: Outcome,
    correlation: float,
    *,
    level: float,
    searched: bool,
    began: float,
    plan: Plan,
) -> Result:
    """What was found, on data that it has not seen or less the luck of having seen them, and the model that follows."""
    task = _supervised(oracle)
    model = task.model
    ledger = oracle.ledger
    ledger.pulse.phase("decision")
    rungs = outcome.rungs()
    checks = [_checked(judge, oracle.keep, rung) for rung in rungs]
    # If none keeps every constraint, the last one is turned down for that.
    keeping = [n for n, kept in enumerate(checks) if all(each.holds for each in kept)] or [len(rungs) - 1]
    lucky = _luck_of(oracle, rungs) if searched else ()
    proposal, comparison = judge.keep_best(task.metric, rungs[keeping], among=len(rungs), level=level, luck=lucky)
    kept = next(checks[n] for n in keeping if torch.equal(rungs[n], proposal))
    pair = torch.stack([torch.zeros_like(proposal), proposal])
    stopped = ledger.stopped
    if stopped:
        warnings.warn(f"the search ended early: {stopped}", MetricFailureWarning, stacklevel=3)
    ledger.pulse.phase("landscape")
    line = loss_line(task, proposal)
    result = Result(
        model=model,
        metric=as_a_whole(task.metric),
        comparison=comparison,
        proposal=proposal,
        outcome=outcome,
        ledger=ledger,
        seconds=time.perf_counter() - began + (0.0 if ledger.journal is None else ledger.journal.spent),
        rank_correlation=correlation,
        kept=kept,
        stopped=stopped,
        plan=plan.to_dict(),
    )
    model.phi.data.copy_(pair[int(result.accepted)])
    constraints = [asdict(each) for each in kept]
    accepted = {**asdict(comparison), "accepted": result.accepted, "constraints": constraints}
    ledger.note("accepted", {**accepted, "changes": judge.changes(task.metric, pair)})
    ledger.note("landscape", line)
    ledger.note("result", {**result.to_dict(), "proposal": proposal, "phi": model.phi})
    return result


def _luck_of(oracle: Oracle, rungs: Tensor) -> list[float]:
    """Of a start or shift, whose directions are few, and of what was found in all of phi."""
    shifts = max(1, len(oracle.probe.shift_coordinates))
    freedoms = [shifts, oracle.dim] if len(rungs) == 2 else [oracle.dim]
    return [luck(freedom, oracle.ledger.used) for freedom in freedoms]


def _checked(judge: Judge, keep: Sequence[Constraint], phi: Tensor) -> tuple[Kept, ...]:
    """The constraints at one phi (dim,) on the held-out data."""
    pair = torch.stack([torch.zeros_like(phi), phi])
    return tuple(judge.check(constraint, pair) for constraint in keep)


def _supervised(oracle: Oracle) -> SupervisedTask:
    assert isinstance(oracle.task, SupervisedTask)
    return oracle.task


def propose(
    oracle: Oracle,
    *,
    queries: int,
    preset: Preset = "default",
    recipe: Recipe | None = None,
    seed: int = 0,
    watching: Watch | None = None,
    transfer: Transfer | None = None,
) -> tuple[Outcome, float]:
    """The search alone: a proposal and the rank correlation of the value function with unseen observations.

    `watching` hears of the first answer, about the original model, and bounds what comes before the second. `transfer`
    has what the search begins with, and what it leaves.

    Example:
        >>> from metricopt.data.dataset import Examples
        >>> from metricopt.metrics import mcr
        >>> x = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
        >>> data = Examples(x, (x[:, 0] > 0.5).long())
        >>> model = adapt(nn.Linear(2, 1), OutputAffine())
        >>> oracle = Oracle(SupervisedTask(model, metric=mcr(), train=data, search=data))
        >>> outcome, correlation = propose(oracle, queries=20, recipe=Recipe(start_steps=20))
        >>> outcome.phi.shape, oracle.ledger.used
        (torch.Size([2]), 20)
    """
    if preset != "default":
        return _paper(oracle, preset, queries=queries, seed=seed, watching=watching)
    recipe = Recipe() if recipe is None else recipe

    def starts() -> Tensor:
        if watching is not None:
            watching.answered()
        found = torch.zeros(0, oracle.dim)
        if recipe.starts:
            found = _starts(oracle, recipe, seed=seed, afford=None if watching is None else watching.affordable)
        oracle.ledger.pulse.phase("search", total=queries)
        return found

    brought, keepsake = (None, None) if transfer is None else (transfer.brought, transfer.keepsake)
    found = walk(oracle, queries=queries, seed=seed, starts=starts, recipe=recipe, value=brought, keepsake=keepsake)
    return found.outcome, found.rank_correlation


def _starts(oracle: Oracle, recipe: Recipe, *, seed: int, afford: Callable[[float, int], int] | None) -> Tensor:
    pulse = oracle.ledger.pulse
    pulse.phase("loss finetuning", total=recipe.start_steps)
    return loss_starts(
        oracle.probe,
        steps=recipe.start_steps,
        lr=recipe.start_lr,
        generator=stream(seed, "starts"),
        afford=afford,
        beat=pulse.beat,
    )


def _paper(
    oracle: Oracle, preset: PaperPreset, *, queries: int, seed: int, watching: Watch | None
) -> tuple[Outcome, float]:
    """Trajectories, value function, guided finetuning: the original and the ends of the paths are queried last."""
    stages = paper_stages(preset, _supervised(oracle).model.net)
    check_enough(preset, stages, queries)
    if preset == "paper-letter":
        warn_of_the_letter()
    if watching is not None:
        watching.answered()
    oracle.ledger.pulse.phase("trajectories")
    learnt = learn(oracle, queries=queries, seed=seed, stages=stages)
    oracle.ledger.pulse.phase("guided finetuning")
    found = follow(oracle, learnt, seed=seed, stages=stages)
    return Outcome(found.phi, ((oracle.ledger.used, found.phi),)), learnt.health.rank_correlation


def adapted(
    net: nn.Module,
    adapter: Adapter | None,
    *,
    example: Tree,
    seed: int,
    call: Call = default_call,
    read: Read = None,
    embeds: bool = False,
    preset: Preset = "default",
) -> AdaptedModel:
    """A copy of `net` with an adapter; without one named, FiLM where it finds a layer, else a dynamic bias.

    Both with an affine of the outputs, where the network's output has a tensor that can be told to be that; of a
    network that `embeds`, of the last layer, so that what normalises embeddings comes after it. Of a detector FiLM
    acts in the box head, and the affine is of its class scores and box corrections. The paper's presets have the
    paper's own adapter, where the network can have that.

    Example:
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
        >>> model = adapted(net, None, example=torch.zeros(2, 4), seed=0)
        >>> model.layers, model.dim, model.net is net
        (('1',), 38, False)
    """
    net = copy.deepcopy(net)
    if adapter is not None:
        return adapt(net, adapter, seed=seed, example=example, call=call, read=read)
    if is_detector(net):
        return adapt(net, detector_adapter(), seed=seed, example=example, call=call, read=read)
    film, bias, affine = FiLM(dim=32), DynamicBias(dim=16), EmbeddingAffine() if embeds else OutputAffine()
    refusals = []
    of_paper = () if preset == "default" else (paper_adapter(net),)
    for choice in (*of_paper, film + affine, bias + affine, film, bias):
        try:
            return adapt(net, choice, seed=seed, example=example, call=call, read=read)
        except AdapterError as error:
            refusals.append(error)
    raise refusals[-1]  # of the plainest choice: what refuses it refuses the others too
