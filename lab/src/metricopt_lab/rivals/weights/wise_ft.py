"""WiSE-FT (Wortsman et al. 2022): between the original and the finetuned weights."""

from metricopt_lab.rivals.weights.asking import Asked
from metricopt_lab.rivals.weights.choosing import best_with_bias
from metricopt_lab.rivals.weights.finetunings import Clock, Finetunings
from metricopt_lab.rivals.weights.named import Tuned, weight_rival
from metricopt_lab.rivals.weights.state import between, outputs_of

SHARES = tuple(step / 10 for step in range(11))


@weight_rival("wise_ft")
def wise_ft(shared: Finetunings, *, calls: int) -> Tuned:
    """The original and the best finetuning interpolated, how far being chosen by the metric, then biases."""
    began, problem, bank = Clock(), shared.problem, shared.usual
    asked = Asked(problem.metric, shared.held_out, calls=calls)
    costs = asked.costs(outputs_of(problem.net, bank.states, shared.held_out.inputs))
    tuned = bank.states[int(costs.argmin())]
    states = [between(shared.original, tuned, share) for share in SHARES]
    at, bias = best_with_bias(asked, outputs_of(problem.net, states, shared.held_out.inputs))
    return Tuned(states[at], bias, asked.used, began.taken + bank.took, {"share": SHARES[at]})
