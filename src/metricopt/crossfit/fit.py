"""All finetunings of the recipe: a rate is chosen, time is looked at, then each kind is finetuned fold by fold."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from metricopt.core.clock import now, since
from metricopt.core.seeding import derived_seed
from metricopt.crossfit.draws import Draws, draws_of, folds_of
from metricopt.crossfit.learner import Learner, State
from metricopt.crossfit.settings import CrossFit, Kind
from metricopt.crossfit.training import Tick, finetuned, trained

TRIAL_EPOCHS = 2
LEAST_EPOCHS = 3  # of the first kind, however long they take; of further kinds twice as many or none


@dataclass(frozen=True, eq=False)
class Plan:
    """What will be finetuned.

    Attributes:
        rate: First rate of Adam.
        epochs: Of each finetuning.
        kinds: How many of the recipe's kinds, the first ones, are finetuned.
        seconds: About how long it takes.
    """

    rate: float
    epochs: int
    kinds: int
    seconds: float

    def numbers(self) -> Tensor:
        """As numbers for a journal, (4,)."""
        return torch.tensor([self.rate, self.epochs, self.kinds, self.seconds], dtype=torch.float64)

    @classmethod
    def of(cls, numbers: Tensor) -> "Plan":
        """From a journal."""
        rate, epochs, kinds, seconds = numbers.tolist()
        return cls(rate, int(epochs), int(kinds), seconds)


@dataclass(frozen=True, eq=False)
class Fitted:
    """Networks finetuned fold by fold and on all rows.

    Attributes:
        fold_of: Fold of each validation row, (n,).
        states: For each kind the weights: one network a fold, and last the one that would be returned.
    """

    fold_of: Tensor
    states: list[State]

    @property
    def folds(self) -> int:
        """Number of folds."""
        return int(self.fold_of.max()) + 1


def plan_of(learner: Learner, *, seed: int, tick: Tick = lambda _: None) -> Plan:
    """The rate by which the loss of rows left out falls fastest, and as much finetuning as there is time for.

    A plan without kinds says that no rate gives a loss that is a number.
    """
    settings = learner.settings
    fold_of = folds_of(learner.val, settings.folds, seed=seed)
    (draws, *_) = _draws(learner, settings.kinds[0], fold_of, seed=seed)
    left_out = (fold_of == 0).nonzero()[:, 0]
    best, rate, began, epochs = learner.left_out_loss(learner.copy(), left_out), math.nan, now(), 0
    for lr in settings.rates:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derived_seed(seed, "finetuning", "dropout", "trial"))
            net = trained(learner, draws, epochs=TRIAL_EPOCHS, lr=lr, tick=tick)
        epochs += TRIAL_EPOCHS
        loss = learner.left_out_loss(net, left_out)
        if loss < best or (math.isnan(rate) and math.isfinite(loss)):
            best, rate = min(best, loss), lr
        if since(began) > settings.seconds / 4 and math.isfinite(rate):
            break  # one network of it is slow enough: what is known has to do
    return _affordable(settings, rate, since(began) / epochs)


def _affordable(settings: CrossFit, rate: float, an_epoch: float) -> Plan:
    """As many epochs, and then kinds, as fit into the time; none at all without a rate."""
    if math.isnan(rate):
        return Plan(rate, 0, 0, 0.0)
    networks = settings.folds + 1
    affordable = int(settings.seconds / (an_epoch * networks))  # epochs, of all kinds together
    wanted = min(settings.epochs, 2 * LEAST_EPOCHS)
    kinds = max(1, min(len(settings.kinds), affordable // wanted))
    epochs = max(min(settings.epochs, LEAST_EPOCHS), min(settings.epochs, affordable // kinds))
    return Plan(rate, epochs, kinds, an_epoch * networks * kinds * epochs)


def fit(learner: Learner, plan: Plan, *, seed: int, tick: Tick) -> Fitted:
    """The finetunings of a plan, one population for each kind."""
    settings = learner.settings
    fold_of = folds_of(learner.val, settings.folds, seed=seed)
    states = []
    for kind in settings.kinds[: plan.kinds]:
        every = _draws(learner, kind, fold_of, seed=seed)
        states.append(_averaged(finetuned(learner, every, epochs=plan.epochs, lr=plan.rate, seed=seed, tick=tick)))
    return Fitted(fold_of, states)


def _draws(learner: Learner, kind: Kind, fold_of: Tensor, *, seed: int) -> list[Draws]:
    """Mini-batches of one network for each fold's complement, and of one for all rows."""
    settings = learner.settings
    every = torch.arange(len(fold_of))
    rows = [every[fold_of != fold] for fold in range(settings.folds)] + [every]
    shown = round(len(every) * (1 - 1 / settings.folds))
    return [
        draws_of(
            learner.val,
            learner.task.train,
            some,
            kind,
            shown=shown,
            batch=settings.batch,
            seed=seed,
            member=f"{kind.name} {at}",
        )
        for at, some in enumerate(rows)
    ]


def _averaged(state: State) -> State:
    """The same, the last network halfway between the one of all rows and the mean of the fold networks.

    All of them started from the same weights, so that their mean is as good a network with less noise in it.
    """

    def settled(tensor: Tensor) -> Tensor:
        return torch.cat([tensor[:-1], ((tensor[:-1].mean(0) + tensor[-1]) / 2)[None]])

    return {name: settled(tensor) if tensor.is_floating_point() else tensor for name, tensor in state.items()}
