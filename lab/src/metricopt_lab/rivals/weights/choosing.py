"""Which of several networks is best once its biases are tuned, by the metric."""

import torch
from torch import Tensor

from metricopt_lab.rivals.weights.asking import Asked
from metricopt_lab.rivals.weights.biases import tuned_bias


def best_with_bias(asked: Asked, outputs: Tensor) -> tuple[int, Tensor]:
    """Which of the networks' outputs (networks, n, ...) is best with a bias, and the bias.

    The two best without one are tuned with half of the calls each: balanced and plain finetuning differ mostly by a
    bias, so that the runner-up before tuning may win after it. Without any calls left it is the first, as it is.

    Example:
        >>> from metricopt.data.dataset import Examples
        >>> from metricopt.metrics import mcr
        >>> scores, truth = torch.arange(8.0), torch.arange(8) > 4
        >>> asked = Asked(mcr(), Examples(scores[:, None], truth.long()), calls=60)
        >>> at, bias = best_with_bias(asked, torch.stack([-scores, scores, scores.flip(0)]))
        >>> at, -5 < float(bias) < -4
        (1, True)
    """
    costs = asked.costs(outputs).tolist()
    order = sorted(range(len(costs)), key=lambda at: costs[at])[:2]
    found: list[tuple[int, Tensor, float]] = []
    for place, at in enumerate(order):
        share = asked.left // (len(order) - place)
        if share:
            found.append((at, *tuned_bias(asked, outputs[at], calls=share)))
    nothing = torch.zeros(outputs.shape[2:])
    at, bias, _ = min(found, key=lambda each: each[2]) if found else ((order or [0])[0], nothing, 0.0)
    return at, bias
