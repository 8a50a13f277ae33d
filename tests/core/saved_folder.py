"""A folder with a run, its result, an adapter and a value network: what the library writes and reads back."""

from pathlib import Path

import torch
from torch import nn

import metricopt as mo
from metricopt.losses import cross_entropy
from metricopt.paper.network import ValueNetwork

FINGERPRINT = "0123456789abcdef"


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 6), nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 1))


def fill(folder: Path) -> mo.Result:
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(300, 3, generator=draw)
    y = (x[:, 0] > 0.5).long()
    result = mo.optimize(
        net(),
        loss=cross_entropy,
        metric="f1",
        train=(x[:100], y[:100]),
        val=(x[100:], y[100:]),
        queries=12,
        recipe=mo.Recipe(start_steps=5, candidates=20),
        keep=[mo.Constraint("accuracy", at_least=0.1)],
        run_dir=folder,
    )
    mo.save_adapter(mo.adapt(net(), mo.DynamicBias(dim=4) + mo.OutputAffine()), folder)
    mo.save_value(ValueNetwork(4, hidden=(5, 3), generator=draw), folder, fingerprint=FINGERPRINT)
    return result
