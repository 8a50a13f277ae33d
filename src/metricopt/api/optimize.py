"""The front door: a model, a loss, a metric and data in; a model that is better, or the original, out."""

import math
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from torch import nn

from metricopt.adapters import Adapter
from metricopt.api.adapted import adapted_task
from metricopt.api.decision import concluded, decided, judge_of
from metricopt.api.learner import learner_of, within_folds
from metricopt.api.preflight import check_confidence, check_parts, check_plan, check_resume, check_workers
from metricopt.api.problem import problem_of
from metricopt.api.propose import propose
from metricopt.api.recording import granted, recorded, staffed, start_of
from metricopt.api.result import Result
from metricopt.api.transfer import Transfer, carried_value
from metricopt.api.watching import Watch
from metricopt.api.ways import Effort, Tune, settings_of, way_of, way_with_value
from metricopt.api.weights import crossfitted, forget
from metricopt.core.reading import Read
from metricopt.core.tree import Call
from metricopt.core.tree import call as default_call
from metricopt.crossfit import CrossFit
from metricopt.crossfit.finetuner import Finetuner
from metricopt.data.lazy import Collate
from metricopt.data.modules import both_of
from metricopt.data.sampling import Sampling
from metricopt.metrics import Constraint, as_metric
from metricopt.paper.preset import Preset
from metricopt.run.events import NAME, Event, Listener, read_events
from metricopt.run.folder import run_folder
from metricopt.run.ledger import QueryLedger
from metricopt.run.live import watching as progress_of
from metricopt.search import Recipe
from metricopt.task.base import Loss
from metricopt.task.oracle import Oracle

__all__ = ["Preset", "Result", "optimize"]


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
    finetuner: Finetuner | None = None,
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
        queries: How often the search may ask the metric. Calls for the noise of its answers and for the decision come
            on top: at most 3,044 of a cheap metric and 37 of a costly one, besides constraints and retries.
            `Result.plan` states them.
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
        confidence: How sure, one-sided, it must be that the result is better for it to be accepted. The interval that
            is printed is two-sided, of level 2 * confidence - 1: 80% for 0.9.
        progress: Whether the plan, the phase, the best value so far and the time left are shown on stderr; by default
            in a terminal and in a notebook.
        workers: How many calls of the metric are made at the same time. With one everything depends on the seed alone;
            with more the search asks on while answers are under way, so what it asks next depends on which came first.
        executor: Who makes the calls: processes of this machine if None, the workers of a
            `concurrent.futures.Executor`, or those of a Ray cluster with "ray".
        finetuner: Who makes the finetunings of weights; one that keeps them spares runs that differ in nothing but
            `queries` from making them again.

    Example:
        >>> import torch
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
    check_plan(queries, recipe, max_failures, preset=preset)
    carried = carried_value(value, preset=preset)
    queries = int(queries)
    check_parts(net, adapter, loss, keep)
    settings = settings_of(effort, batch_size)
    check_confidence(confidence)
    check_workers(workers, executor)
    check_resume(run_dir, resume=resume)
    way = way_of(
        tune,
        metric=metric,
        keep=keep,
        learns=learn_from_val,
        adapter=adapter,
        search=recipe is not None or preset != "default",
        net=net,
    )
    if carried is not None:
        way = way_with_value(way, tune)
    train, val = both_of(train, val, datamodule)
    visible = learn_from_val and not metric.hidden
    # Nothing but the answers has chosen then, and how much luck that makes is known.
    less_luck = way == "adapter" and preset == "default" and holdout is None and not visible and not keep
    problem = problem_of(
        net,
        metric,
        train=train,
        val=val,
        holdout=holdout,
        whole=way != "adapter" or less_luck,
        loss=loss,
        batch_size=batch_size,
        sampling=sampling,
        labels_visible=visible,
        seed=seed,
        call=call,
        collate=collate,
        read=read,
    )
    learner = None if way == "adapter" else learner_of(problem, way, settings, insist=tune is not None)
    if learner is None:
        problem = problem if less_luck else problem.with_holdout()
        task = adapted_task(problem, adapter, preset=preset)
    else:
        task, folds = learner.task, learner.settings.folds
        keep = [replace(each, metric=within_folds(each.metric, problem.val, folds, seed=seed)) for each in keep]
    oracle = Oracle(task, granted(ledger, queries, max_failures), keep=keep)
    ledger = oracle.ledger
    recipe = Recipe() if recipe is None else recipe
    transfer = Transfer(task, recipe, carried, queries=queries)
    facts = {
        "queries": queries,
        "seed": seed,
        "preset": preset,
        "tune": "adapter" if learner is None else learner.tuned,
        "recipe": asdict(recipe) if learner is None else asdict(learner.settings),
        "confidence": confidence,
        "max_failures": ledger.max_failures,
        **({} if workers == 1 else {"workers": workers}),
        **transfer.facts,
    }
    folder = run_folder(run_dir)
    heard: list[Event] = []
    with ExitStack() as opened:
        shown = opened.enter_context(progress_of(progress))
        listeners = (*watch, *shown, lambda event: None if event["event"] == "phase" else heard.append(event))
        start = start_of(task, facts, keep=keep, sets=problem.sets)
        opened.enter_context(recorded(ledger, start, folder=folder, resume=resume, listeners=listeners))
        opened.enter_context(staffed(oracle, task, problem.holdout, workers=workers, executor=executor))
        watching = Watch(oracle, problem.sets, queries=queries, searches=learner is None)
        watching.begin()
        if learner is None:
            chosen = None
            outcome, correlation = propose(
                oracle,
                queries=queries,
                preset=preset,
                recipe=recipe,
                seed=seed,
                watching=watching,
                transfer=transfer,
            )
        else:
            chosen = crossfitted(
                oracle, learner, queries=queries, seed=seed, folder=folder, watching=watching, finetuner=finetuner
            )
            outcome, correlation = chosen.outcome, math.nan
        judge = judge_of(oracle, task, problem, chosen)
        decision = decided(oracle, task, judge, outcome, level=2 * confidence - 1, less_luck=less_luck)
        result = concluded(
            task,
            judge,
            decision,
            ledger=ledger,
            outcome=outcome,
            correlation=correlation,
            began=began,
            plan=watching.plan,
        )
        if folder is not None:
            result.save(folder)
            forget(folder)
    events = tuple(heard if folder is None else read_events(folder / NAME))
    return replace(result, events=events, carried=transfer.learnt())
