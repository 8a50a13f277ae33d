"""Bias tuning alone."""

from metricopt_lab.rivals.weights.asking import Asked
from metricopt_lab.rivals.weights.biases import tuned_bias
from metricopt_lab.rivals.weights.finetunings import Clock, Finetunings
from metricopt_lab.rivals.weights.named import Tuned, weight_rival
from metricopt_lab.rivals.weights.state import outputs_of


@weight_rival("bias")
def bias(shared: Finetunings, *, calls: int) -> Tuned:
    """A threshold, or a bias for each class, of the pre-trained network, tuned on all validation rows."""
    began, problem = Clock(), shared.problem
    asked = Asked(problem.metric, problem.val, calls=calls)
    outputs = outputs_of(problem.net, [shared.original], problem.val.inputs)[0]
    found, _ = tuned_bias(asked, outputs, calls=calls)
    return Tuned(shared.original, found, asked.used, began.taken)
