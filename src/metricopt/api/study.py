"""The user's own loop: ask for points, have them judged wherever that is done, tell what came out."""

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor, nn

from metricopt.adapters import AdaptedModel, Adapter
from metricopt.adapters.freezing import placement
from metricopt.adapters.saved import adapter_facts
from metricopt.api.adapted import adapted
from metricopt.api.preflight import check_loss, check_parts, check_plan, check_resume
from metricopt.api.transfer import Transfer, carried_value
from metricopt.api.turns import Turns
from metricopt.core.errors import BudgetError, DataError, FileFormatError
from metricopt.core.plain import unpacked
from metricopt.core.reading import Read
from metricopt.core.seeding import stream
from metricopt.core.tree import Call
from metricopt.core.tree import call as default_call
from metricopt.data.lazy import Collate
from metricopt.data.splits import facts_of, three_sets
from metricopt.metrics.adopted import Bounds, Goal, On
from metricopt.metrics.metric import Metric
from metricopt.run.events import NAME, read_events
from metricopt.run.folder import run_folder
from metricopt.run.journal import open_journal
from metricopt.search import Recipe
from metricopt.search.archive import Archive
from metricopt.search.starts import loss_starts
from metricopt.search.transfer import save_carried
from metricopt.search.transfer.place import TOLD
from metricopt.search.walk import walk_in
from metricopt.task.base import Loss
from metricopt.task.oracle import Oracle
from metricopt.task.supervised import SupervisedTask

_ENDLESS = 2**31


def study(
    net: nn.Module,
    *,
    goal: Goal,
    train: Any,
    val: Any,
    on: On = "labels",
    bounds: Bounds | None = (0.0, 1.0),
    loss: Loss | None = None,
    queries: int = 300,
    adapter: Adapter | None = None,
    recipe: Recipe | None = None,
    value: Any = None,
    batch_size: int = 256,
    seed: int = 0,
    run_dir: Path | str | None = None,
    resume: bool = False,
    call: Call = default_call,
    collate: Collate | None = None,
    read: Read = None,
) -> "Study":
    """A search that asks nobody itself: you ask it for points, and tell it what they are worth.

    It searches the phi of an adapter, as `optimize` does where labels are hidden. Whether what it finds is better on
    other rows is for you to judge: it has no held-out data.

    Args:
        net: A pre-trained model; its weights stay as they are.
        goal: "max" or "min".
        train: Data for the loss, as for `optimize`.
        val: Inputs, or inputs and targets, that the values will be about; targets are not looked at.
        on: What your metric looks at: it tells the search when two points must look the same to it.
        bounds: Smallest and largest value, or None.
        loss: As for `optimize`.
        queries: How many points may be asked for; `more` grants more.
        adapter: What phi modulates, as for `optimize`.
        recipe: Settings of the search.
        value: What another search has learnt, as for `optimize`.
        batch_size: Rows a mini-batch of the loss finetuning before the search.
        seed: The points depend on it, on what was told, and on the order of asking and telling.
        run_dir: Folder for a journal of what was asked and told.
        resume: Whether to go on with the study in that folder.
        call: As for `optimize`.
        collate: As for `optimize`.
        read: As for `optimize`.

    Example:
        >>> draw = torch.Generator().manual_seed(0)
        >>> x = torch.randn(600, 4, generator=draw)
        >>> y = (x[:, 0] > 0.5).long()
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))  # stands for a trained one
        >>> study_of = study(net, goal="max", train=(x[:300], y[:300]), val=x[300:], queries=20)
        >>> while study_of.left:
        ...     phi = study_of.ask(4)
        ...     labels = (study_of.outputs(phi)[..., 0] > 0).long()
        ...     study_of.tell(phi, (labels == y[300:]).double().mean(1))
        >>> study_of.best_value > study_of.told[0][1], len(study_of.told)  # the first is the original
        (True, 20)
    """
    check_plan(queries, recipe, None)
    check_parts(net, adapter, loss, ())
    check_resume(run_dir, resume=resume)
    carried = carried_value(value)
    metric = Metric(_never, on=on, goal=goal, bounds=bounds, name=TOLD, costly=True, hidden=True)
    sets = three_sets(train, val, None, seed=seed, hidden=True, dtype=placement(net)[1], collate=collate, whole=True)
    model = adapted(net, adapter, example=sets["train"].inputs_at(slice(0, 2)), seed=seed, call=call, read=read)
    task = SupervisedTask(
        model, loss=loss, metric=metric, train=sets["train"], search=sets["val"], batch_size=batch_size
    )
    check_loss(task)
    facts = {
        "study": {"seed": seed, "goal": goal, "on": on, "batch_size": batch_size, "loss": task.loss_rule.name},
        "recipe": vars(Recipe() if recipe is None else recipe),
        "model": {**adapter_facts(model), "dim": model.dim},
        "data": facts_of(sets),
    }
    transfer = Transfer(task, Recipe() if recipe is None else recipe, carried, queries=int(queries))
    facts["study"] |= transfer.facts
    made = Study(task, Recipe() if recipe is None else recipe, queries=int(queries), seed=seed, transfer=transfer)
    made._keep(run_folder(run_dir), facts, resume=resume)
    return made


def _never(*_: Any) -> float:
    raise AssertionError("a study asks nobody")


@final
class Study:
    """Made by `study`.

    Attributes:
        told: Every answer so far, in order: phi (dim,) and its value, NaN where there was none.
    """

    def __init__(self, task: SupervisedTask, recipe: Recipe, *, queries: int, seed: int, transfer: Transfer) -> None:
        self._transfer = transfer
        self._task, self._granted, self._asked, self._prior = task, queries, 0, 0
        self._oracle = Oracle(task)
        self._archive = Archive(self._oracle, _ENDLESS, caution=recipe.caution, rows=recipe.rows)
        self._journal = None
        self.told: list[tuple[Tensor, float]] = []

        def starts() -> Tensor:
            generator = stream(seed, "starts")
            return loss_starts(self._oracle.probe, steps=recipe.start_steps, lr=recipe.start_lr, generator=generator)

        found = starts if recipe.starts else torch.zeros(0, task.dim)
        self._turns = Turns(lambda: self._walk(seed, found, recipe))
        self._oracle.crew = self._turns

    def _walk(self, seed: int, starts: Any, recipe: Recipe) -> None:
        transfer = self._transfer
        walk_in(
            self._archive, seed=seed, starts=starts, recipe=recipe, value=transfer.brought, keepsake=transfer.keepsake
        )

    @property
    def left(self) -> int:
        """How many more points may be asked for."""
        return self._granted - self._asked

    @property
    def pending(self) -> Tensor:
        """Points that were asked for and not yet told, (n, dim)."""
        return self._turns.pending(self._task.dim)

    def ask(self, count: int = 1) -> Tensor:
        """The next points to judge, (at most count, dim): fewer where the next depend on those that are pending."""
        if count < 1:
            raise BudgetError(f"ask was given {count!r}; expected at least 1 point")
        if self.left < 1:
            raise BudgetError(f"all {self._granted} points of the study were asked for: grant more by study.more(50)")
        phi = self._turns.next(min(count, self.left), self._task.dim)
        self._asked += len(phi)
        self._note("ask", {"count": count, "phi": phi})
        return phi

    def tell(self, phi: Tensor, values: Sequence[float | None] | Tensor) -> None:
        """What points (n, dim) are worth, in your metric's units; None or NaN for one that could not be judged.

        In any order, and of points of your own too: what is known of those counts, and uses up none of the queries.
        """
        phi, numbers = self._checked(phi, values)
        for point, value in zip(phi, numbers, strict=True):
            if not self._turns.tell(point, value):
                self._archive.send(point[None], stage="prior")
                self._turns.tell(point, value)
            self.told.append((point.clone(), value))
        self._note("tell", {"phi": phi, "values": numbers})

    def more(self, queries: int) -> None:
        """Grant so many further points."""
        self._granted += queries
        self._note("more", {"queries": queries})

    @property
    def best(self) -> Tensor:
        """The best phi so far that is more than luck, (dim,); the original, 0, before anything was told."""
        self._turns.next(0, self._task.dim)
        return self._archive.outcome().phi.clone() if self.told else torch.zeros(self._task.dim)

    @property
    def best_value(self) -> float:
        """What it was worth."""
        best = self.best
        return next((value for phi, value in self.told if torch.equal(phi, best)), math.nan)

    def outputs(self, phi: Tensor) -> Tensor:
        """What the network gives for the inputs of `val` at some points (n, dim): (n, rows, ...)."""
        return self._task.search_outputs(phi)

    def model(self, phi: Tensor | None = None) -> AdaptedModel:
        """A copy of the network that acts with phi (dim,), or with the best one."""
        model = copy.deepcopy(self._task.model)
        model.phi.data.copy_(self.best if phi is None else phi)
        return model

    def save_value(self, path: Path | str, **about: Any) -> Path:
        """Write what the answers so far have taught into one file, for `optimize` or another study to begin with."""
        learnt = self._transfer.learnt()
        if learnt is None:
            raise FileFormatError(
                f"{len(self.told)} answers were told; expected some more before there is a value function to save: "
                f"ask and tell"
            )
        return save_carried(replace(learnt, about=about), path)

    def close(self) -> None:
        """Let go of the journal, so that another process can go on with it."""
        if self._journal is not None:
            self._journal.close()

    def _checked(self, phi: Tensor, values: Sequence[float | None] | Tensor) -> tuple[Tensor, list[float]]:
        numbers = [math.nan if value is None else float(value) for value in values]
        if not isinstance(phi, Tensor) or phi.shape != (len(numbers), self._task.dim):
            found = tuple(phi.shape) if isinstance(phi, Tensor) else type(phi).__name__
            raise DataError(
                f"tell was given {len(numbers)} values of points {found}; expected shape "
                f"({len(numbers)}, {self._task.dim}): one row for each value, as ask gave them"
            )
        known = [value for value in numbers if not math.isnan(value)]
        self._task.metric.cost(torch.tensor(known, dtype=torch.float64))  # raises beyond the bounds
        return phi.detach().cpu().float(), numbers

    def _note(self, event: str, fields: dict[str, Any]) -> None:
        if self._journal is not None:
            self._journal.note(event, fields)

    def _keep(self, folder: Path | None, facts: dict[str, Any], *, resume: bool) -> None:
        """Begin a journal, or go through the one that is there."""
        if folder is None:
            return
        path = folder / NAME
        before = read_events(path) if resume and path.exists() else []
        self._journal = open_journal(folder, facts, resume=resume)
        for event in before:
            if event["event"] == "ask":
                self._check_same(self.ask(event["count"]), unpacked(event["phi"]))
            elif event["event"] == "tell":
                values = [math.nan if value is None else value for value in event["values"]]
                self.tell(unpacked(event["phi"]), values)
            elif event["event"] == "more":
                self.more(event["queries"])

    def _check_same(self, phi: Tensor, before: Tensor) -> None:
        if not torch.equal(phi, before.reshape(phi.shape) if phi.numel() == before.numel() else before):
            raise FileFormatError(
                "the study gave other points before, although settings, model and data are the same; expected the same "
                "bits: go on on the same machine with as many threads, or begin anew in another folder"
            )
