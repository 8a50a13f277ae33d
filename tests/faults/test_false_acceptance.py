import torch
from scipy.stats import binom
from torch import nn

import metricopt as mo
from metricopt.losses import cross_entropy


def test_where_labels_are_coin_flips_a_search_is_accepted_no_more_often_than_the_stated_5_percent():
    repetitions, accepted = 120, 0
    for seed in range(repetitions):
        draw = torch.Generator().manual_seed(seed)
        x, y = torch.randn(500, 3, generator=draw), torch.randint(2, (500,), generator=draw)
        torch.manual_seed(seed)
        result = mo.optimize(
            nn.Sequential(nn.Linear(3, 6), nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 1)),
            loss=cross_entropy,
            metric="mcr",
            train=(x[:100], y[:100]),
            val=(x[100:], y[100:]),
            queries=15,
            seed=seed,
            recipe=mo.Recipe(start_steps=5, candidates=20),
        )
        accepted += result.accepted
    # No model is better than another at guessing coins: every acceptance is false.
    assert accepted <= binom.ppf(0.99, repetitions, 0.05)
