"""The recipe for visible labels: cross-fitted finetuning of the weights, judged out of fold, refitted on all rows."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from metricopt.core.seeding import stream
from metricopt.data.dataset import Examples
from metricopt_lab.crossfit.asking import Asked
from metricopt_lab.crossfit.batches import Batches, mixed, steps_an_epoch
from metricopt_lab.crossfit.crossfit_biases import Shifted, honest_bias
from metricopt_lab.crossfit.outcome import Outcome
from metricopt_lab.crossfit.population import Schedule, State, finetuned, population_outputs, stacked
from metricopt_lab.problems.zoo import UserProblem as Problem
from metricopt_lab.problems.zoo.problem import outputs_of_rows


@dataclass(frozen=True)
class Kind:
    """One way of finetuning: whether classes are drawn equally often, and training rows for each validation row."""

    balanced: bool
    mix: float


PLAIN, BALANCED, ALONE = Kind(False, 1.0), Kind(True, 1.0), Kind(False, 0.0)
ALPHAS = (0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Recipe:
    """Settings of the recipe.

    Attributes:
        folds: Parts of the validation rows.
        schedule: Of every finetuning.
        kinds: The finetunings of each fold and of all rows.
        mixtures: Weights of the kinds' changes, each asked about at every one of `alphas`.
        alphas: How far to go from the original towards the finetuned weights.
        tuned: How many of the best mixtures get biases.
    """

    folds: int = 4
    schedule: Schedule = field(default_factory=Schedule)
    kinds: tuple[Kind, ...] = (PLAIN, BALANCED, ALONE)
    mixtures: tuple[tuple[float, ...], ...] = ((1, 0, 0), (0, 1, 0), (0.5, 0.5, 0), (0, 0, 1))
    alphas: tuple[float, ...] = ALPHAS
    tuned: int = 3

    @property
    def options(self) -> list[tuple[float, ...]]:
        """Coefficients of the kinds' changes to ask about, the original first."""
        scaled = [tuple(alpha * weight for weight in mixture) for mixture in self.mixtures for alpha in self.alphas]
        return [tuple(0.0 for _ in self.kinds), *scaled]


QUICK = Recipe(  # within three times what finetuning and bias tuning take
    schedule=Schedule(epochs=12), kinds=(PLAIN, ALONE), mixtures=((1, 0), (0, 1)), folds=3
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Fitted:
    """Networks finetuned fold by fold and on all rows.

    Attributes:
        fold_of: Fold of each validation row, (n,).
        states: Per kind, the members: one a fold, then the one that is returned.
        original: State of the original network, with one member.
    """

    fold_of: Tensor
    states: list[State]
    original: State


@dataclass(frozen=True, eq=False)
class Choice:
    """What the out-of-fold rows said.

    Attributes:
        coefficients: Of the kinds' weight changes.
        shifted: The bias, and how it does on rows that it was not fitted to.
        start: Cost of the original on the same rows.
        outputs: Out-of-fold outputs, every row shifted by a bias that has not seen it.
        before: Outputs of the original.
        calls: Calls spent.
    """

    coefficients: tuple[float, ...]
    shifted: Shifted
    start: float
    outputs: Tensor
    before: Tensor
    calls: int


def crossfit(problem: Problem, *, calls: int, seed: int, recipe: Recipe | None = None) -> tuple[Outcome, Choice]:
    """The refitted network and its biases, chosen by out-of-fold predictions of all validation rows."""
    recipe, began, cpu = recipe or Recipe(), time.perf_counter(), time.process_time()
    fitted = fit(problem, recipe, seed=seed)
    found = choose(problem, fitted, recipe, calls=calls)
    state = combined(fitted, found.coefficients, member=-1)
    details: dict[str, float | str] = {
        "choice": str(found.coefficients), "bias": found.shifted.name, "expected": found.shifted.cost,
        "start": found.start,
    }  # fmt: skip
    outcome = Outcome("crossfit", state, found.shifted.bias, found.calls, time.perf_counter() - began,
                      time.process_time() - cpu, details)  # fmt: skip
    return outcome, found


def fit(problem: Problem, recipe: Recipe, *, seed: int) -> Fitted:
    """All finetunings of the recipe, one population for each kind."""
    every = torch.arange(len(problem.val))
    fold_of = folds(problem.val, recipe.folds, seed=seed)
    rows = [every[fold_of != fold] for fold in range(recipe.folds)] + [every]
    data, first = mixed(problem.val, problem.train)
    states = []
    for number, kind in enumerate(recipe.kinds):
        shown = round(len(every) * (1 - 1 / recipe.folds) * (1 + kind.mix))  # rows an epoch of a fold network
        schedule = replace(recipe.schedule, batch=min(recipe.schedule.batch, shown))
        steps = steps_an_epoch(shown, batch=schedule.batch)
        plans = [Batches(data, some, first, steps, schedule.batch, kind.mix, kind.balanced, seed, 100 * number + at)
                 for at, some in enumerate(rows)]  # fmt: skip
        states.append(averaged(finetuned(problem.net, plans, problem.loss, schedule, seed=seed)))
    return Fitted(fold_of, states, stacked(problem.net, 1))


def averaged(state: State) -> State:
    """The same, the last member halfway between the refit on all rows and the mean of the fold networks.

    All of them started from the same weights, so that their mean is as good a network with less noise in it.
    """

    def settled(tensor: Tensor) -> Tensor:
        return torch.cat([tensor[:-1], ((tensor[:-1].mean(0) + tensor[-1]) / 2)[None]])

    return {name: settled(tensor) if tensor.is_floating_point() else tensor for name, tensor in state.items()}


def folds(val: Examples, count: int, *, seed: int) -> Tensor:
    """Fold of each row, (n,): random, every class spread evenly."""
    order = torch.randperm(len(val), generator=stream(seed, "folds"))
    by_class = order[torch.argsort(val.targets[order], stable=True)]
    fold_of = torch.empty(len(val), dtype=torch.long)
    fold_of[by_class] = torch.arange(len(val)) % count
    return fold_of


def combined(fitted: Fitted, coefficients: Sequence[float], *, member: int) -> State:
    """The original plus weighted changes of one member of each kind; variances stay positive, counts whole."""
    found: State = {}
    for name, (before,) in fitted.original.items():
        if not before.is_floating_point():
            found[name] = before.clone()
            continue
        after = before.clone()
        for weight, state in zip(coefficients, fitted.states, strict=True):
            after += weight * (state[name][member] - before)
        found[name] = after.clamp(min=1e-6) if name.endswith("running_var") else after
    return found


def out_of_fold(problem: Problem, fitted: Fitted, coefficients: Sequence[float]) -> Tensor:
    """Outputs of all validation rows, each by the combination that has not seen it, (n,) or (n, outputs)."""
    parts, places = [], []
    for fold in range(int(fitted.fold_of.max()) + 1):
        rows = torch.nonzero(fitted.fold_of == fold)[:, 0]
        one = {name: tensor[None] for name, tensor in combined(fitted, coefficients, member=fold).items()}
        parts.append(population_outputs(problem.net, one, problem.val.inputs[rows])[0])
        places.append(rows)
    return torch.cat(parts)[torch.cat(places).argsort()]


def choose(problem: Problem, fitted: Fitted, recipe: Recipe, *, calls: int) -> Choice:
    """The best mixtures by the metric, then biases for them with the rest of the calls, then the best of those."""
    asked = Asked(problem.metric, problem.val, calls=calls)
    before, options = outputs_of_rows(problem.net, problem.val.inputs), recipe.options
    outputs = torch.stack([before, *(out_of_fold(problem, fitted, some) for some in options[1:])])
    costs = asked.costs(outputs)
    order = costs.argsort().tolist()[: recipe.tuned]
    tuned = []
    for at, index in enumerate(order):
        share = asked.left // (len(order) - at)
        tuned.append(honest_bias(asked, outputs[index], fitted.fold_of % 2, float(costs[index]), calls=share))
    best = min(range(len(order)), key=lambda at: tuned[at].cost)
    shown = tuned[best].outputs(outputs[order[best]], fitted.fold_of % 2)
    return Choice(options[order[best]], tuned[best], float(costs[0]), shown, before, asked.used)
