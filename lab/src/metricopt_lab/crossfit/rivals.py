"""What people do anyway, with the real weights: finetune, interpolate, average, tune biases; the metric chooses."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from metricopt.losses import Loss, aucpr, pairwise_aucroc, raw_logits
from metricopt.metrics import Metric
from metricopt_lab.crossfit.asking import Asked
from metricopt_lab.crossfit.bank import SCHEDULE, VARIANTS, Bank, Variant, bank, plans
from metricopt_lab.crossfit.biases import tuned_bias
from metricopt_lab.crossfit.outcome import Outcome
from metricopt_lab.crossfit.population import State, finetuned, population_outputs, stacked
from metricopt_lab.crossfit.problem import Problem, outputs_of_rows

ALPHAS = tuple(step / 10 for step in range(1, 11))


def bias_only(problem: Problem, *, calls: int) -> Outcome:
    """Output biases of the original network, tuned on all validation rows: post-shift."""
    began, cpu = time.perf_counter(), time.process_time()
    asked = Asked(problem.metric, problem.val, calls=calls)
    bias, _ = tuned_bias(asked, outputs_of_rows(problem.net, problem.val.inputs), calls=calls, offline=False)
    return _outcome("bias", _original(problem), bias, asked, began, cpu, None)


def finetune_bias(problem: Problem, trained: Bank, *, calls: int) -> Outcome:
    """The variant that the metric likes best on the rows left out, with biases tuned there."""
    began, cpu = time.perf_counter(), time.process_time()
    asked = Asked(problem.metric, problem.val.rows(trained.held_out), calls=calls)
    states = [_original(problem), *trained.states]
    best, bias = _best_with_bias(problem, asked, states)
    name = ("original", *(variant.name for variant in VARIANTS))[best] if len(trained.states) == len(VARIANTS) else ""
    return _outcome("finetune_bias", states[best], bias, asked, began, cpu, trained, choice=name)


def finetune_refit_bias(problem: Problem, trained: Bank, *, calls: int, seed: int) -> Outcome:
    """The same, and then the variant once more on all validation rows for as many epochs; the biases stay."""
    began, cpu = time.perf_counter(), time.process_time()
    asked = Asked(problem.metric, problem.val.rows(trained.held_out), calls=calls)
    states = [_original(problem), *trained.states]
    best, bias = _best_with_bias(problem, asked, states)
    state = states[0] if best == 0 else _refitted(problem, VARIANTS[best - 1], trained.epochs[best - 1], seed=seed)
    return _outcome("finetune_refit_bias", state, bias, asked, began, cpu, trained)


def wise_ft(problem: Problem, trained: Bank, *, calls: int) -> Outcome:
    """The original and the best variant interpolated, the coefficient chosen by the metric, then biases."""
    began, cpu = time.perf_counter(), time.process_time()
    asked = Asked(problem.metric, problem.val.rows(trained.held_out), calls=calls)
    costs = asked.costs(_outputs(problem, asked, trained.states))
    tuned = trained.states[int(costs.argmin())]
    states = [_between(_original(problem), tuned, alpha) for alpha in (0.0, *ALPHAS)]
    best, bias = _best_with_bias(problem, asked, states)
    return _outcome("wise_ft", states[best], bias, asked, began, cpu, trained, alpha=(0.0, *ALPHAS)[best])


def greedy_soup(problem: Problem, trained: Bank, *, calls: int) -> Outcome:
    """The mean of the weights of those variants that make it better, taken in the order of the metric, then biases."""
    began, cpu = time.perf_counter(), time.process_time()
    asked = Asked(problem.metric, problem.val.rows(trained.held_out), calls=calls)
    costs = asked.costs(_outputs(problem, asked, trained.states))
    order = costs.argsort().tolist()
    chosen, lowest = [trained.states[order[0]]], float(costs.min())
    for index in order[1:]:
        mean = _mean([*chosen, trained.states[index]])
        cost = float(asked.costs(_outputs(problem, asked, [mean]))[0])
        if cost <= lowest:
            chosen, lowest = [*chosen, trained.states[index]], cost
    states = [_original(problem), _mean(chosen)]
    best, bias = _best_with_bias(problem, asked, states)
    return _outcome("greedy_soup", states[best], bias, asked, began, cpu, trained, members=len(chosen))


def ranking_loss(metric: Metric) -> Loss | None:
    """A loss about the order of scores where the metric is of that kind, else None."""
    if metric.on == "labels":
        return None
    scored = {"scores": raw_logits} if metric.name.endswith("by_logit") else {}
    kind = pairwise_aucroc if metric.name.startswith(("auroc", "recall_at")) else aucpr
    return partial(kind, **scored)


def ranking_bias(problem: Problem, *, calls: int, seed: int) -> Outcome | None:
    """All layers finetuned with an AUCPR or pairwise loss, then as `finetune_bias`; None for metrics on labels."""
    loss = ranking_loss(problem.metric)
    if loss is None:
        return None
    variants = tuple(Variant(last, False, mix) for last in (True, False) for mix in (0.0, 1.0))
    trained = bank(problem, seed=seed, loss=loss, variants=variants)
    return replace(finetune_bias(problem, trained, calls=calls), method="ranking_bias")


def _best_with_bias(problem: Problem, asked: Asked, states: Sequence[State]) -> tuple[int, Tensor]:
    """Which state is best after bias tuning, of the two best before it, and its biases."""
    outputs = _outputs(problem, asked, states)
    costs = asked.costs(outputs)
    # Balanced and plain finetuning differ mostly by a bias: the runner-up before tuning may win after it.
    first, *rest = costs.argsort().tolist()[:2]
    tuned = [(first, *tuned_bias(asked, outputs[first], calls=asked.left // (1 + len(rest)), offline=False))]
    tuned += [(index, *tuned_bias(asked, outputs[index], calls=asked.left, offline=False)) for index in rest]
    best = min(tuned, key=lambda each: each[2])
    return best[0], best[1]


def _outputs(problem: Problem, asked: Asked, states: Sequence[State]) -> Tensor:
    together = {name: torch.stack([state[name] for state in states]) for name in states[0]}
    return population_outputs(problem.net, together, asked.data.inputs)


def _original(problem: Problem) -> State:
    return {name: tensor[0] for name, tensor in stacked(problem.net, 1).items()}


def _between(original: State, tuned: State, alpha: float) -> State:
    return {name: torch.lerp(before, tuned[name], alpha) if before.is_floating_point() else before
            for name, before in original.items()}  # fmt: skip


def _mean(states: Sequence[State]) -> State:
    return {name: torch.stack([state[name].double() for state in states]).mean(0).to(first.dtype)
            for name, first in states[0].items()}  # fmt: skip


def _refitted(problem: Problem, variant: Variant, epochs: int, *, seed: int) -> State:
    """The variant on all validation rows: the same schedule, cut where it was stopped."""
    kept: list[State] = []

    def keep(epoch: int, state: State) -> None:
        if epoch + 1 == epochs:
            kept.append({name: tensor[0].clone() for name, tensor in state.items()})

    every = plans(problem, [variant], torch.arange(len(problem.val)), batch=SCHEDULE.batch, seed=seed)
    schedule = replace(SCHEDULE, last_layer=variant.last_layer, backend="together")
    finetuned(problem.net, every, problem.loss, schedule, seed=seed, after_epoch=keep)
    return kept[0]


def _outcome(
    method: str, state: State, bias: Tensor, asked: Asked, began: float, cpu: float, trained: Bank | None,
    **details: float | str,
) -> Outcome:  # fmt: skip
    seconds, processor = time.perf_counter() - began, time.process_time() - cpu
    if trained is not None:
        seconds, processor = seconds + trained.seconds, processor + trained.cpu
    return Outcome(method, state, bias, asked.used, seconds, processor, details)


def all_rivals(problem: Problem, *, calls: int, seed: int) -> list[Outcome]:
    """Every rival once; those that share finetunings are each told their seconds."""
    trained = bank(problem, seed=seed)
    methods: list[Callable[[], Outcome | None]] = [
        partial(bias_only, problem, calls=calls),
        partial(finetune_bias, problem, trained, calls=calls),
        partial(finetune_refit_bias, problem, trained, calls=calls, seed=seed),
        partial(wise_ft, problem, trained, calls=calls),
        partial(greedy_soup, problem, trained, calls=calls),
        partial(ranking_bias, problem, calls=calls, seed=seed),
    ]
    found = [method() for method in methods]
    return [outcome for outcome in found if outcome is not None]
