"""Finetuning and bias tuning, with a refit on all rows and without."""

from metricopt_lab.rivals.weights.asking import Asked
from metricopt_lab.rivals.weights.choosing import best_with_bias
from metricopt_lab.rivals.weights.finetunings import Bank, Clock, Finetunings
from metricopt_lab.rivals.weights.named import Tuned, weight_rival
from metricopt_lab.rivals.weights.state import outputs_of


@weight_rival("finetune_bias")
def finetune_bias(shared: Finetunings, *, calls: int) -> Tuned:
    """The finetuning that the metric likes best on rows left out, with biases tuned there."""
    return chosen_of(shared.usual, shared, calls=calls)[0]


@weight_rival("finetune_refit_bias")
def finetune_refit_bias(shared: Finetunings, *, calls: int) -> Tuned:
    """The same, and then that finetuning once more on all validation rows for as many epochs; the biases stay."""
    found, best = chosen_of(shared.usual, shared, calls=calls)
    if best is None:
        return found
    state, took = shared.refitted(shared.usual.variants[best], shared.usual.found[best].epoch)
    return Tuned(state, found.bias, found.calls, found.took + took, found.details)


@weight_rival("ranking_bias")
def ranking_bias(shared: Finetunings, *, calls: int) -> Tuned | None:
    """Finetuning with an AUCPR or pairwise loss, then as finetune_bias; only for metrics about the order of scores."""
    return None if shared.ranking is None else chosen_of(shared.ranking, shared, calls=calls)[0]


def chosen_of(bank: Bank, shared: Finetunings, *, calls: int) -> tuple[Tuned, int | None]:
    """The best of a bank and the original, and which it was; None for the original."""
    began, problem = Clock(), shared.problem
    asked = Asked(problem.metric, shared.held_out, calls=calls)
    states = [*bank.states, shared.original]
    at, bias = best_with_bias(asked, outputs_of(problem.net, states, shared.held_out.inputs))
    best = at if at < len(bank.states) else None
    name = "original" if best is None else bank.variants[best].name
    return Tuned(states[at], bias, asked.used, began.taken + bank.took, {"choice": name}), best
