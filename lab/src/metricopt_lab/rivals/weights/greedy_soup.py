"""Model soups (Wortsman et al. 2022), the greedy kind."""

from metricopt_lab.rivals.weights.asking import Asked
from metricopt_lab.rivals.weights.choosing import best_with_bias
from metricopt_lab.rivals.weights.finetunings import Clock, Finetunings
from metricopt_lab.rivals.weights.named import Tuned, weight_rival
from metricopt_lab.rivals.weights.state import mean_of, outputs_of


@weight_rival("greedy_soup")
def greedy_soup(shared: Finetunings, *, calls: int) -> Tuned:
    """The mean of those finetunings that make the mean better, taken in the order of the metric, then biases."""
    began, problem, bank = Clock(), shared.problem, shared.usual
    asked = Asked(problem.metric, shared.held_out, calls=calls)
    costs = asked.costs(outputs_of(problem.net, bank.states, shared.held_out.inputs))
    order = costs.argsort().tolist()
    chosen, lowest = [bank.states[order[0]]], float(costs.min())
    for at in order[1:]:
        mean = mean_of([*chosen, bank.states[at]])
        cost = asked.costs(outputs_of(problem.net, [mean], shared.held_out.inputs))
        if len(cost) and float(cost[0]) <= lowest:
            chosen, lowest = [*chosen, bank.states[at]], float(cost[0])
    states = [mean_of(chosen), shared.original]
    at, bias = best_with_bias(asked, outputs_of(problem.net, states, shared.held_out.inputs))
    return Tuned(states[at], bias, asked.used, began.taken + bank.took, {"members": len(chosen)})
