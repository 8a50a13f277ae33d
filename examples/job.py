"""A job for the command: `metricopt optimize examples/job.py --queries 100 --workers 2 --report`.

Everything that `metricopt.optimize` takes is named at the top level; here a network learnt in one clinic is used in
another, and its owner wants balanced recall of the sick and the healthy there.
"""

import torch
from torch import nn

from metricopt.losses import cross_entropy as loss


def patients(count: int, shift: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Three readings each; `shift` is by how much this clinic's patients read lower."""
    readings = torch.randn(count, 3, generator=torch.Generator().manual_seed(count))
    sick = (readings[:, 0] + 0.5 * readings[:, 1] > 1).long()
    return readings - shift, sick


train, val = patients(1500, 0.0), patients(1000, 0.7)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1))
_adam = torch.optim.Adam(net.parameters(), lr=0.02)
for _ in range(100):
    _adam.zero_grad()
    loss(net(train[0]), train[1]).backward()
    _adam.step()

metric, effort = "g_mean", "quick"
