"""Populations of finetunings take the steps that torch's own Adam would take with each of them."""

import copy

import pytest
import torch
from torch import nn

from metricopt.losses import cross_entropy
from metricopt_lab.rivals.weights.batches import Batches
from metricopt_lab.rivals.weights.training import Stopping, finetuned

EPOCHS, STEPS, BATCH = 3, 4, 50


@pytest.fixture
def net():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)).double()


@pytest.fixture
def plans(moved_rows):
    data = moved_rows(300, 0, 0.5)
    data = type(data)(data.inputs.double(), data.targets)
    return [Batches(data, torch.arange(200), 200, STEPS, BATCH, 1.0, balanced, 0, member)
            for member, balanced in enumerate((False, True))]  # fmt: skip


def by_hand(net, plan, rate):
    model = copy.deepcopy(net).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS * STEPS)
    for epoch in range(EPOCHS):
        for batch in plan.epoch(epoch):
            optimizer.zero_grad()
            cross_entropy(model(plan.data.inputs[batch]), plan.data.targets[batch]).backward()
            optimizer.step()
            cosine.step()
    return model.state_dict()


def test_members_with_rates_of_their_own_end_where_each_would_alone(net, plans):
    rates = (1e-3, 8e-3)
    found = finetuned(net, plans, cross_entropy, epochs=EPOCHS, rates=rates, stopping=Stopping(), seed=0)
    for one, plan, rate in zip(found, plans, rates, strict=True):
        expected = by_hand(net, plan, rate)
        for name, tensor in one.state.items():
            torch.testing.assert_close(tensor, expected[name], atol=1e-5, rtol=1e-5)


def test_a_schedule_cut_short_is_the_beginning_of_the_whole_one(net, plans):
    def one(stopping):
        return finetuned(net, plans[:1], cross_entropy, epochs=EPOCHS, rates=(2e-3,), stopping=stopping, seed=0)[0]

    best = one(Stopping(plans[0].data))
    cut = one(Stopping(epoch=best.epoch))
    assert all(torch.equal(cut.state[name], tensor) for name, tensor in best.state.items())


def test_mixed_mini_batches_have_as_many_training_rows_and_balanced_ones_every_class_as_often(plans):
    plain, balanced = (plan.epoch(0).flatten() for plan in plans)
    assert int((plain >= 200).sum()) == int((balanced >= 200).sum()) == STEPS * BATCH // 2
    counts = torch.bincount(plans[1].data.targets[balanced], minlength=3)
    assert counts.min() > 0.7 * counts.max()


def test_torch_s_random_state_is_as_it_was(net, plans):
    before = torch.get_rng_state()
    finetuned(net, plans, cross_entropy, epochs=1, rates=(1e-3, 1e-3), stopping=Stopping(), seed=0)
    assert torch.equal(before, torch.get_rng_state())
