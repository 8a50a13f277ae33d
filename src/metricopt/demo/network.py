"""The demo's network, trained as anyone would: a small MLP, cross-entropy, Adam."""

import torch
from torch import nn

from metricopt.core.seeding import derived_seed, stream
from metricopt.demo.data import Rows
from metricopt.losses import cross_entropy

EPOCHS, BATCH, RATE = 12, 256, 0.01


def trained(rows: Rows, *, outputs: int, seed: int) -> nn.Module:
    """A network for `outputs` classes, or with one output for two, in a second or two.

    Example:
        >>> x = torch.randn(512, 3, generator=stream(0, "x"))
        >>> net = trained((x, (x[:, 0] > 0).long()), outputs=1, seed=0)
        >>> bool(((net(x)[:, 0] > 0) == (x[:, 0] > 0)).float().mean() > 0.9)
        True
    """
    inputs, targets = rows
    net = _untrained(inputs.shape[1], outputs, seed)
    steps = EPOCHS * -(-len(targets) // BATCH)
    optimizer = torch.optim.Adam(net.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)
    draw = stream(seed, "demo", "batches")
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(targets), generator=draw).split(BATCH):
            optimizer.zero_grad()
            cross_entropy(net(inputs[batch]), targets[batch]).backward()
            optimizer.step()
            schedule.step()
    return net.eval()


def _untrained(features: int, outputs: int, seed: int) -> nn.Module:
    # Layers draw their first weights from torch's global state, which is the caller's.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(seed, "demo", "weights"))
        return nn.Sequential(
            nn.Linear(features, 64),
            nn.BatchNorm1d(64),
            nn.ReLU(),
            nn.Linear(64, 32),
            nn.BatchNorm1d(32),
            nn.ReLU(),
            nn.Linear(32, outputs),
        )
