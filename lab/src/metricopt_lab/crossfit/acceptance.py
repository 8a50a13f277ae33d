"""How sure it is that a proposal is better: a paired bootstrap of out-of-fold rows, widened by what such rows miss."""

from statistics import NormalDist

import torch

from metricopt.core.seeding import stream
from metricopt_lab.crossfit.crossfit import Choice
from metricopt_lab.problems.zoo import UserProblem as Problem

RESAMPLES = 200
WIDENING = 1.25
OPTIMISM = 0.0


def verdict(problem: Problem, choice: Choice, *, seed: int) -> dict[str, float | str]:
    """Mean gain out of fold, its standard error, and the chance that the gain is above 0.

    The outputs are those of networks and biases that have not seen the rows; what remains optimistic is the choice
    among a few mixtures and biases. `WIDENING` multiplies the standard error, `OPTIMISM` standard errors are taken off.
    """
    draw, data, metric = stream(seed, "acceptance"), problem.val, problem.metric
    both = torch.stack([choice.before, choice.outputs])
    gains = []
    for _ in range(RESAMPLES):
        rows = torch.randint(len(data), (len(data),), generator=draw)
        some = data.rows(rows)
        before, after = metric.cost(metric.values(both[:, rows], some.targets, some.groups)).tolist()
        gains.append(before - after)
    spread = torch.tensor(gains, dtype=torch.float64)
    gain = choice.start - choice.shifted.cost
    error = max(float(spread.std()), 1e-12)
    chance = NormalDist().cdf((gain - OPTIMISM * error) / (WIDENING * error))
    return {"gain": gain, "bootstrap": float(spread.mean()), "error": error, "chance": chance}
