"""Cross-fitted finetuning from its first query to the choice: the original, the finetunings, the metric's say."""

from pathlib import Path

import torch
from torch import Tensor

from metricopt.api.watching import Watch
from metricopt.core.errors import FileFormatError
from metricopt.core.files import load, save
from metricopt.crossfit.choose import Chosen, choose
from metricopt.crossfit.finetuner import Anew, Finetuner
from metricopt.crossfit.fit import Fitted, Plan
from metricopt.crossfit.learner import Learner
from metricopt.task.oracle import Oracle
from metricopt.task.out_of_fold import set_weights

_KIND, _VERSION = "finetuned", 2


def crossfitted(
    oracle: Oracle,
    learner: Learner,
    *,
    queries: int,
    seed: int,
    folder: Path | None = None,
    watching: Watch | None = None,
    finetuner: Finetuner | None = None,
) -> Chosen:
    """The weights and biases that the metric prefers on rows they have not seen; the task's model leads to them.

    Args:
        oracle: Asks about the learner's task.
        learner: Finetunes copies of its network.
        queries: How many there are.
        seed: Of folds and mini-batches.
        folder: Where finetuned weights wait for a run that is killed and resumed.
        watching: Hears of the first answer, about the original model.
        finetuner: Makes the finetunings; anew if None.
    """
    finetuner = Anew() if finetuner is None else finetuner
    task, settings = learner.task, learner.settings
    (original,) = oracle.observe(torch.zeros(1, task.dim), stage="original").nan_to_num(nan=torch.inf).tolist()
    if watching is not None:
        watching.answered()
    pulse = oracle.ledger.pulse
    pulse.phase("rate of finetuning")
    # From the journal, should the run be resumed: the clock must not decide twice.
    numbers = oracle.ledger.once("finetuning", lambda: finetuner.plan(learner, seed=seed, tick=pulse.beat).numbers())
    assert numbers is not None
    plan = Plan.of(numbers)
    fitted = _kept(folder, plan)
    if fitted is None:
        pulse.phase("finetuning", total=plan.work(settings))
        fitted = finetuner.fit(learner, plan, seed=seed, tick=pulse.beat)
        _keep(folder, plan, fitted)
    pulse.phase("search", total=queries)
    task.take_folds(fitted.fold_of, [_states(fitted, fold) for fold in range(settings.folds)])
    set_weights(task.model, _states(fitted, -1))
    return choose(oracle, settings, kinds=len(fitted.states), original=original, queries=queries - 1)


def _states(fitted: Fitted, member: int) -> list[dict[str, Tensor]]:
    return [{name: tensor[member] for name, tensor in state.items()} for state in fitted.states]


def _keep(folder: Path | None, plan: Plan, fitted: Fitted) -> None:
    if folder is not None:
        tensors = {f"{at}.{name}": tensor for at, state in enumerate(fitted.states) for name, tensor in state.items()}
        facts = {"plan": plan.numbers().tolist()}
        save(folder, _KIND, facts, {**tensors, "fold_of": fitted.fold_of}, version=_VERSION)


def _kept(folder: Path | None, plan: Plan) -> Fitted | None:
    """What a killed run had finetuned by the same plan, if it got that far and the files are whole."""
    if folder is None or not (folder / f"{_KIND}.json").exists():
        return None
    try:
        saved = load(folder, _KIND, version=_VERSION)
    except FileFormatError:
        return None  # it can be computed again
    if saved.facts.get("plan") != plan.numbers().tolist():
        return None
    states: dict[int, dict[str, Tensor]] = {}
    for name, tensor in saved.tensors.items():
        kind, _, rest = name.partition(".")
        if rest:
            states.setdefault(int(kind), {})[rest] = tensor
    return Fitted(saved.tensors["fold_of"], [states[kind] for kind in sorted(states)])


def forget(folder: Path | None) -> None:
    """Remove the finetuned weights of all folds, which only a run that goes on needs."""
    if folder is not None:
        for path in folder.glob(f"{_KIND}[-.]*"):
            path.unlink(missing_ok=True)
