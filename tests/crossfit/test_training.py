"""Finetuned copies: one by one or as a population the same, the original untouched, what is frozen stays."""

import copy
from dataclasses import replace

import pytest
import torch
from tests.crossfit.problems import SMALL, draw, learner, network, rows, task
from torch import nn
from torch.func import functional_call

from metricopt.crossfit.draws import Draws, draws_of, folds_of
from metricopt.crossfit.fit import Plan, fit, plan_of
from metricopt.crossfit.learner import Learner, State
from metricopt.crossfit.settings import Kind
from metricopt.crossfit.training import finetuned, state_of, trained

MIXED = Kind(False, 1.0)


def plans(own: Learner, count: int) -> list[Draws]:
    return [
        draws_of(own.val, own.task.train, torch.arange(200 + k), MIXED, shown=200, batch=64, seed=0, member=str(k))
        for k in range(count)
    ]


def test_a_population_learns_what_its_members_learn_alone():
    own = learner()
    own.model.net[3].p = 0.0  # dropout would draw other numbers
    rates = (1e-2, 1e-2, 3e-3)
    together = finetuned(own, plans(own, 3), epochs=2, rates=rates, seed=0, tick=lambda _: None)
    x = own.val.inputs
    for member, one in enumerate(plans(own, 3)):
        alone = trained(own, one, epochs=2, lr=rates[member]).eval()
        state = {name: tensor[member] for name, tensor in together.items()}
        torch.testing.assert_close(functional_call(alone, state, (x,)), alone(x), rtol=1e-2, atol=1e-2)
        assert not torch.allclose(alone(x), own.model.net(x), atol=0.1)


def test_the_original_stays_as_it_is():
    own = learner()
    before = copy.deepcopy(own.model.net.state_dict())
    fit(own, Plan(1e-2, 1e-2, 2, 2, 0.0), seed=0, tick=lambda _: None)
    assert all(torch.equal(tensor, before[name]) for name, tensor in own.model.net.state_dict().items())
    assert not any(parameter.requires_grad for parameter in own.model.net.parameters())


def test_the_same_seed_gives_the_same_bits_whatever_the_global_one():
    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        found.append(fit(learner(), Plan(1e-2, 1e-2, 2, 1, 0.0), seed=0, tick=lambda _: None).states[0])
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


def raw_states(own: Learner, *, epochs: int, rate: float) -> State:
    """One network a fold and one of all rows, as they come out of finetuning."""
    every = torch.arange(len(own.val))
    refit = draws_of(own.val, own.task.train, every, SMALL.kinds[0], shown=200, batch=64, seed=0, member="mixed 3")
    fold_of = folds_of(own.val, 3, seed=0)
    others = [replace(refit, rows=every[fold_of != fold], member=f"mixed {fold}") for fold in range(3)]
    return finetuned(own, [*others, refit], epochs=epochs, rates=[rate] * 4, seed=0, tick=lambda _: None)


def test_networks_that_stayed_near_each_other_are_averaged():
    own = learner()
    state = fit(own, Plan(1e-3, 1e-3, 1, 1, 0.0), seed=0, tick=lambda _: None).states[0]["4.weight"]
    raw = raw_states(own, epochs=1, rate=1e-3)["4.weight"]
    torch.testing.assert_close(state[:-1], raw[:-1])  # one a fold
    torch.testing.assert_close(state[-1], raw.mean(0))


def test_with_a_barrier_between_them_the_network_of_all_rows_is_returned(monkeypatch):
    monkeypatch.setattr("metricopt.crossfit.fit.BARRIER", -0.9)  # whatever is not ten times better is a barrier
    own = learner()
    state = fit(own, Plan(1e-3, 1e-3, 1, 1, 0.0), seed=0, tick=lambda _: None).states[0]["4.weight"]
    torch.testing.assert_close(state, raw_states(own, epochs=1, rate=1e-3)["4.weight"])


def test_the_first_kind_chooses_the_rate_by_rows_left_out():
    own = learner()
    own.model.net[3].p = 0.0  # dropout would draw other numbers
    found = fit(own, Plan(1e-7, 1e-2, 4, 1, 0.0), seed=0, tick=lambda _: None).states[0]
    expected = raw_states(own, epochs=4, rate=1e-2)
    torch.testing.assert_close(found["4.weight"][:-1], expected["4.weight"][:-1], rtol=1e-2, atol=1e-3)


def test_what_the_user_froze_does_not_move():
    net = network()
    for name, parameter in net.named_parameters():
        parameter.requires_grad_(name.startswith("4"))
    own = learner()
    own = Learner(
        own.task.__class__(_adapted(net), metric=own.task.metric, train=own.task.train, search=own.val), SMALL
    )
    state = fit(own, Plan(1e-2, 1e-2, 1, 1, 0.0), seed=0, tick=lambda _: None).states[0]
    moved = {name for name, tensor in state.items() if not torch.equal(tensor[0], state_of(net)[name])}
    assert moved == {"4.weight", "4.bias"}


def test_light_finetuning_moves_norms_biases_and_the_last_layer_only():
    own = learner(tuned="light")
    state = fit(own, Plan(1e-2, 1e-2, 1, 1, 0.0), seed=0, tick=lambda _: None).states[0]
    before = state_of(own.model.net)
    still = {name for name, tensor in state.items() if torch.equal(tensor[0], before[name])}
    assert still == {"0.weight"}


def test_a_copy_that_explodes_is_the_original_again():
    own = learner()
    state = finetuned(own, plans(own, 2), epochs=1, rates=(1e39, 1e39), seed=0, tick=lambda _: None)
    before = state_of(own.model.net)
    assert all(torch.equal(tensor[0], before[name]) for name, tensor in state.items())


def test_the_rate_is_the_one_that_lowers_the_loss_of_rows_left_out():
    plan = plan_of(learner(settings=replace(SMALL, rates=(1e-7, 1e-2, 1e3))), seed=0)
    assert plan.rate == 1e-2 and plan.epochs == 4 and plan.kinds == 3


def test_where_a_moment_lowers_the_loss_by_far_twice_as_many_epochs_are_made():
    plan = plan_of(learner(settings=replace(SMALL, rates=(1e-1,))), seed=0)
    assert plan.epochs == 8


@pytest.mark.parametrize(("seconds", "kinds"), [(1e9, 3), (1e-9, 1)])
def test_what_would_take_too_long_is_cut_down_but_never_to_nothing(seconds, kinds):
    plan = plan_of(learner(settings=replace(SMALL, seconds=seconds)), seed=0)
    assert plan.kinds == kinds and plan.epochs >= 3


def test_progress_counts_every_epoch_of_every_network():
    heard = []
    fit(learner(), Plan(1e-2, 1e-2, 2, 2, 0.0), seed=0, tick=heard.append)
    assert sum(heard) == 16  # 2 kinds x 4 networks x 2 epochs; those of the last layer take next to no time


@pytest.mark.parametrize(("noise", "epochs"), [(False, 40), (True, 10)])
def test_all_kinds_take_the_length_that_rows_left_out_prefer_for_the_first(noise, epochs):
    alone = Kind(balanced=False, mix=0.0)
    settings = replace(SMALL, lengths=(1.0, 1 / 4), kinds=(alone, replace(alone, balanced=True)))
    own = learner(settings=settings)
    if noise:  # there is nothing to learn but rows by heart, and the network knows nothing that would have to go
        targets = own.val.targets[torch.randperm(len(own.val), generator=draw(3))]
        own = replace(own, task=task(settings=settings, targets=targets, net=network(steps=0)))
    heard, plan = [], Plan(3e-2, 1e-2, 40, 2, 0.0)
    fit(own, plan, seed=0, tick=heard.append)
    tried, networks = 2 * (40 + 10), settings.folds + 1
    assert sum(heard) == networks * (tried + epochs) <= plan.work(settings)


def test_a_network_that_raises_in_train_mode_says_so():
    class Fussy(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = network()

        def forward(self, x):
            if self.training:
                raise ValueError("only for inference")
            return self.inner(x)

    own = learner()
    fussy = own.task.__class__(_adapted(Fussy()), metric=own.task.metric, train=own.task.train, search=own.val)
    assert "only for inference" in Learner(fussy, SMALL).obstacle()
    assert Learner(fussy, SMALL, train_mode=False).obstacle() == ""


def _adapted(net):
    from metricopt.adapters import WeightDirections, adapt

    return adapt(net, WeightDirections(3), example=rows(4, 0, turned=True)[0])


def test_where_steps_are_bearable_and_epochs_are_not_a_network_is_shown_fewer_rows(monkeypatch):
    own = learner()
    monkeypatch.setattr("metricopt.crossfit.fit.now", lambda: 0.0)
    monkeypatch.setattr("metricopt.crossfit.fit.since", lambda _: 0.2)
    hasty = replace(own, settings=replace(own.settings, seconds=12.0, batch=16))
    plan = plan_of(hasty, seed=0)
    # An epoch of 300 rows and as many of training takes 7.5 s; three epochs of four networks are to take 6.
    assert plan.batch == 16 and plan.share == pytest.approx(4 * 16 / 300)
    assert plan_of(replace(own, settings=replace(own.settings, seconds=1e6)), seed=0).share == 1


def test_a_slow_network_gets_smaller_steps_and_epochs_of_fewer_rows(monkeypatch):
    monkeypatch.setattr("metricopt.crossfit.fit.now", lambda: 0.0)
    monkeypatch.setattr("metricopt.crossfit.fit.since", lambda _: 4.0)  # half a second a row
    plan = plan_of(learner(), seed=0)
    assert plan.batch == 4 and plan.share < 0.2 and plan.epochs >= 1
    state = fit(learner(), plan, seed=0, tick=lambda _: None).states[0]
    assert all(tensor.isfinite().all() for tensor in state.values())


def test_a_plan_survives_the_journal():
    plan = Plan(8e-3, 2e-3, 24, 3, 11.0, 32, 0.25)
    assert Plan.of(plan.numbers()) == plan
