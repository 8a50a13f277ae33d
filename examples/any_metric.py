"""A model, a loss and a metric of your own: better on data that were never queried, or the original back.

A hospital may raise an alarm for at most a tenth of its patients and wants as many of the sick among them as it can.
No loss is made for that, and no threshold helps: only the order of the scores counts. The network learnt from one
clinic and is used in another, where the second reading means something else.
"""

import numpy as np
import torch
from torch import nn

import metricopt as mo
from metricopt.losses import cross_entropy


def found_by_alarms(truth: np.ndarray, scores: np.ndarray) -> float:
    """Share of the sick among the tenth of the patients with the highest scores."""
    alarms = np.argsort(-scores, kind="stable")[: len(scores) // 10]
    return float(truth[alarms].sum() / max(truth.sum(), 1))


def patients(count: int, effect: float, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Four readings each, of which two matter; `effect` is what the second one does."""
    readings = torch.randn(count, 4, generator=generator)
    risk = 2 * readings[:, 0] + effect * readings[:, 1] - 3
    return readings, (torch.rand(count, generator=generator) < risk.sigmoid()).long()


def main() -> mo.Result:
    """Train in one clinic, improve the metric in another."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    there, here, test = patients(4000, -2.0, generator), patients(4000, 2.0, generator), patients(8000, 2.0, generator)
    net = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(200):
        optimizer.zero_grad()
        cross_entropy(net(there[0]), there[1]).backward()
        optimizer.step()

    metric = mo.Metric(found_by_alarms, on="scores", goal="max")
    result = mo.optimize(net, loss=cross_entropy, metric=metric, train=there, val=here, queries=150, seed=0)
    print(result)
    report = result.evaluate(test)
    print(f"on {report.examples} test patients: {report.before:.3f} -> {report.after:.3f}")
    plain = result.merge()  # an nn.Sequential like `net`, without an adapter
    print(type(plain).__name__, "of", sum(p.numel() for p in plain.parameters()), "parameters, as before")
    return result


if __name__ == "__main__":
    main()
