"""All finetunings of the recipe: a rate is chosen, time is looked at, then each kind is finetuned fold by fold."""

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace

import torch
from torch import Tensor

from metricopt.core.clock import now, since
from metricopt.core.seeding import derived_seed
from metricopt.crossfit.draws import Draws, draws_of
from metricopt.crossfit.head import head_of
from metricopt.crossfit.learner import Learner, State
from metricopt.crossfit.settings import CrossFit, Kind
from metricopt.crossfit.training import Tick, finetuned, trained

TRIAL_EPOCHS = 2
LEAST_EPOCHS = 3  # of the first kind; of further kinds twice as many or none
LEAST_STEPS = 4  # an epoch, however long they take
A_STEP = 2.0  # seconds, so that nobody waits for a sign of life
FAR = 0.7  # of the original's loss of rows left out: where a moment brings it below, twice as many epochs are made
BARRIER = 0.03  # of the loss: that much higher at the mean of some networks than at them, it is none to return
LAST_RATES = (8e-3, 1e-3)  # of the last layer, each tried in full: its steps take next to nothing


@dataclass(frozen=True)
class Plan:
    """What will be finetuned.

    Attributes:
        rate: First rate of Adam that lowered the loss of rows left out most.
        other: The next best one.
        epochs: Of each finetuning.
        kinds: How many of the recipe's kinds that move all weights, the first ones, are finetuned.
        seconds: About how long it takes.
        batch: Rows a step, if not as many as the settings say.
        share: Of its rows, how many a network is shown in an epoch.

    Example:
        >>> Plan.of(Plan(8e-3, 2e-3, 24, 3, 11.0).numbers()).epochs
        24
    """

    rate: float
    other: float
    epochs: int
    kinds: int
    seconds: float
    batch: int = 0
    share: float = 1.0

    def numbers(self) -> Tensor:
        """As numbers for a journal, (7,)."""
        return torch.tensor(astuple(self), dtype=torch.float64)

    @classmethod
    def of(cls, numbers: Tensor) -> "Plan":
        """From a journal."""
        rate, other, epochs, kinds, seconds, batch, share = numbers.tolist()
        return cls(rate, other, int(epochs), int(kinds), seconds, int(batch), share)

    def paced(self, learner: Learner) -> Learner:
        """The learner with the plan's batches and share of rows."""
        settings = learner.settings
        return replace(learner, settings=replace(settings, batch=self.batch or settings.batch, share=self.share))

    @property
    def rates(self) -> list[float]:
        """Those that the first kind is finetuned at."""
        return [self.rate] if self.other == self.rate else [self.rate, self.other]

    def lengths(self, settings: CrossFit) -> list[int]:
        """Epochs that are tried: several only if there is time for a second rate."""
        shares = settings.lengths if len(self.rates) > 1 else settings.lengths[:1]
        return list(dict.fromkeys(max(1, round(share * self.epochs)) for share in shares))

    def work(self, settings: CrossFit) -> int:
        """Epochs of all networks: of each kind one a fold and one of all rows, of the first at all rates and lengths.

        At most: if a shorter length turns out best, all kinds but the first take less.
        """
        first, *shorter = self.lengths(settings)
        tried = len(self.rates) * sum(shorter) + (len(self.rates) - 1) * first
        return (settings.folds + 1) * (self.kinds * first + tried)


@dataclass(frozen=True, eq=False)
class Fitted:
    """Networks finetuned fold by fold and on all rows.

    Attributes:
        fold_of: Fold of each validation row, (n,).
        states: For each kind the weights that learnt: one network a fold, and last the one that would be returned.
    """

    fold_of: Tensor
    states: list[State]

    @property
    def folds(self) -> int:
        """Number of folds."""
        return int(self.fold_of.max()) + 1


def plan_of(learner: Learner, *, seed: int, tick: Tick = lambda _: None) -> Plan:
    """The rates by which the loss of rows left out falls fastest, and as much finetuning as there is time for.

    A plan without kinds says that no rate gives a loss that is a number.
    """
    plan = _pace(learner)
    learner, settings = plan.paced(learner), learner.settings
    fold_of = learner.folds(seed)
    (draws, *_) = _draws(learner, settings.kinds[0], fold_of, seed=seed)
    began, epochs = now(), 0

    def count(networks: int) -> None:
        nonlocal epochs
        epochs += networks
        tick(networks)

    losses = _trials(learner, draws, fold_of, seed=seed, tick=count, seconds=settings.seconds / 4)
    taken, rates = since(began), _two_best(losses)
    if not rates:
        return plan
    before = learner.mean_loss(learner.copy(), (fold_of == 0).nonzero()[:, 0], tick=tick)
    if losses[rates[0]] < FAR * before:
        settings = replace(settings, epochs=2 * settings.epochs)
    return _affordable(settings, replace(plan, rate=rates[0], other=rates[-1]), taken / epochs)


def _pace(learner: Learner) -> Plan:
    """A plan of nothing yet, with steps that a slow network makes in bearable time, and epochs of fewer rows."""
    settings = learner.settings
    nothing = Plan(math.nan, math.nan, 0, 0, 0.0)
    a_row = _seconds_a_row(learner, 8)
    if a_row * settings.batch <= A_STEP:
        if _share(learner, a_row) >= 1:
            return nothing
        a_row = _seconds_a_row(learner, settings.batch)  # of few rows most is not theirs
    batch = settings.batch
    if a_row * batch > A_STEP:
        batch = max(4, 2 ** int(math.log2(A_STEP / a_row))) if a_row < A_STEP else 4
    least = LEAST_STEPS * batch / len(learner.val)
    share = min(1.0, max(_share(learner, a_row), least))
    return nothing if share == 1 and batch >= settings.batch else replace(nothing, batch=batch, share=share)


def _seconds_a_row(learner: Learner, count: int) -> float:
    """What a row of a step takes."""
    rows = learner.few(count)
    net, taken = learner.copy(), []
    for _ in range(2):  # the first step of a network may take much longer than all others
        began = now()
        learner.loss(net, learner.batches(rows, rows[:0], seed=0)).backward()
        taken.append(since(began))
    return max(min(taken) / len(rows), 1e-9)


def _share(learner: Learner, a_row: float) -> float:
    """Of the rows, with how many the fewest epochs of the first kind take half of the time."""
    settings = learner.settings
    an_epoch = a_row * len(learner.val) * (1 + settings.kinds[0].mix)
    return settings.seconds / 2 / (LEAST_EPOCHS * (settings.folds + 1) * an_epoch)


def _trials(
    learner: Learner, draws: Draws, fold_of: Tensor, *, seed: int, tick: Tick, seconds: float = math.inf
) -> dict[float, float]:
    """Loss of rows left out after a moment, of each rate."""
    losses, began = {}, now()
    for lr in learner.settings.rates:
        losses[lr] = _tried(learner, draws, fold_of, epochs=TRIAL_EPOCHS, lr=lr, seed=seed, tick=tick)
        if since(began) > seconds and any(map(math.isfinite, losses.values())):
            break  # one network of it is slow enough: what is known has to do
    return losses


def _two_best(losses: dict[float, float]) -> list[float]:
    """The two best rates, the best first; one if there is but one, none if no loss is a number."""
    return sorted((lr for lr, loss in losses.items() if math.isfinite(loss)), key=lambda lr: losses[lr])[:2]


def _tried(learner: Learner, draws: Draws, fold_of: Tensor, *, epochs: int, lr: float, seed: int, tick: Tick) -> float:
    """Loss on the first fold's rows of a network that has not seen them."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(seed, "finetuning", "dropout", "trial"))
        net = trained(learner, draws, epochs=epochs, lr=lr, tick=tick)
    return learner.mean_loss(net, (fold_of == 0).nonzero()[:, 0], by_class=draws.kind.balanced)


def _affordable(settings: CrossFit, plan: Plan, an_epoch: float) -> Plan:
    """As many epochs, and then kinds, as fit into the time; a second rate only if there is time for it."""
    a_kind = an_epoch * (settings.folds + 1)  # an epoch of all its networks
    affordable = int(settings.seconds / a_kind)
    wanted = min(settings.epochs, 2 * LEAST_EPOCHS)
    if affordable < 2 * wanted:
        plan = replace(plan, other=plan.rate)
    # Of the first kind all rates and lengths are tried, in units of a kind at its full length.
    tried = len(plan.rates) * sum(settings.lengths) if len(plan.rates) > 1 else 1
    kinds = max(1, min(len(settings.of_all_weights), int(affordable / wanted - tried + 1)))
    epochs = max(min(settings.epochs, LEAST_EPOCHS), min(settings.epochs, int(affordable / (kinds + tried - 1))))
    return replace(plan, epochs=epochs, kinds=kinds, seconds=a_kind * (kinds + tried - 1) * epochs)


def fit(learner: Learner, plan: Plan, *, seed: int, tick: Tick) -> Fitted:
    """The finetunings of a plan, one population for each kind, then those of the last layer, where there is one."""
    learner = plan.paced(learner)
    settings = learner.settings
    fold_of = learner.folds(seed)
    rates, lengths, states = plan.rates, plan.lengths(settings), []
    for kind in settings.of_all_weights[: plan.kinds]:
        own = replace(learner, ranks=kind.ranks)
        every = _draws(own, kind, fold_of, seed=seed)
        if kind.ranks:  # another loss has other rates
            rates = _two_best(_trials(own, every[0], fold_of, seed=seed, tick=tick))[:1] or rates
        rate, length, state = _at_best(own, every, fold_of, rates, lengths=lengths, seed=seed, tick=tick)
        rates, lengths = [rate], [length]  # to try all of them for all kinds would take twice as long
        states.append(_settled(own, state, by_class=kind.balanced, tick=tick))
    states += _last_layers(learner, fold_of, lengths=plan.lengths(settings), seed=seed, tick=tick) if plan.kinds else []
    return Fitted(fold_of, states)


def _last_layers(learner: Learner, fold_of: Tensor, *, lengths: Sequence[int], seed: int, tick: Tick) -> list[State]:
    """Finetunings of the last layer, one for each kind of it; none where it cannot learn on its own."""
    wanted = learner.settings.of_last_layer
    head = head_of(learner, seed=seed, tick=tick) if wanted else None
    if head is None:
        return []
    states = []
    for kind in wanted:
        own = replace(head.learner, ranks=kind.ranks)
        every = _draws(own, kind, fold_of, seed=seed)
        _, _, state = _at_best(own, every, fold_of, LAST_RATES, lengths=lengths, seed=seed, tick=lambda _: tick(0))
        states.append(head.whole(_settled(own, state, by_class=kind.balanced, tick=tick)))
    return states


def _at_best(
    learner: Learner,
    every: Sequence[Draws],
    fold_of: Tensor,
    rates: Sequence[float],
    *,
    lengths: Sequence[int],
    seed: int,
    tick: Tick,
) -> tuple[float, int, State]:
    """Rate, epochs and networks of one kind where the networks have the lowest loss of the rows each has not seen."""
    each = [lr for lr in rates for _ in every]
    found: list[tuple[float, int, State]] = []
    for epochs in lengths:
        states = finetuned(learner, [*every] * len(rates), epochs=epochs, rates=each, seed=seed, tick=tick)
        for at, lr in enumerate(rates):
            found.append((lr, epochs, {name: part.split(len(every))[at] for name, part in states.items()}))
    if len(found) == 1:
        return found[0]
    by_class = every[0].kind.balanced
    losses = [_left_out_loss(learner, state, fold_of, by_class=by_class, tick=tick) for *_, state in found]
    return found[min(range(len(found)), key=lambda at: (math.isnan(losses[at]), losses[at]))]


def _left_out_loss(learner: Learner, state: State, fold_of: Tensor, *, by_class: bool, tick: Tick) -> float:
    """Mean over folds of the loss on a fold's rows of the network that has not seen them."""
    net, losses = learner.copy(), []
    for fold in range(learner.settings.folds):
        net.load_state_dict({name: tensor[fold] for name, tensor in state.items()}, strict=False)
        losses.append(learner.mean_loss(net, (fold_of == fold).nonzero()[:, 0], by_class=by_class, tick=tick))
    return sum(losses) / len(losses)


def _draws(learner: Learner, kind: Kind, fold_of: Tensor, *, seed: int) -> list[Draws]:
    """Mini-batches of one network for each fold's complement, and of one for all rows."""
    settings = learner.settings
    every = torch.arange(len(fold_of))
    rows = [every[fold_of != fold] for fold in range(settings.folds)] + [every]
    shown = round(len(every) * (1 - 1 / settings.folds) * settings.share)
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
            a_class=learner.a_class,
        )
        for at, some in enumerate(rows)
    ]


def _settled(learner: Learner, state: State, *, by_class: bool, tick: Tick) -> State:
    """The same, the last network the mean of all of them, unless the loss is higher there than at the networks.

    All of them started from the same weights; those that stayed near them have a mean with less noise in it. Those
    that went far have a barrier between them, and then the network of all rows is the better one.
    """
    net, rows = learner.copy(), torch.arange(len(learner.val))

    def loss(weights: State) -> float:
        net.load_state_dict(weights, strict=False)
        return learner.mean_loss(net, rows, by_class=by_class, tick=tick)

    members = [{name: tensor[at] for name, tensor in state.items()} for at in range(learner.settings.folds + 1)]
    mean = {name: tensor.mean(0) if tensor.is_floating_point() else tensor[-1] for name, tensor in state.items()}
    apart = sum(map(loss, members)) / len(members)
    if not loss(mean) <= apart + BARRIER * abs(apart):
        return state
    return {name: torch.cat([tensor[:-1], mean[name][None]]) for name, tensor in state.items()}
