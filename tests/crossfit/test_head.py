"""The last layer learns on its own what it would learn within the network."""

from dataclasses import replace

import torch
from tests.crossfit.problems import SMALL, learner, network, rows
from torch import nn

from metricopt.adapters import WeightDirections, adapt
from metricopt.crossfit.fit import Plan, fit
from metricopt.crossfit.head import head_of
from metricopt.crossfit.learner import Learner
from metricopt.data.dataset import Examples
from metricopt.metrics import as_metric
from metricopt.task.out_of_fold import OutOfFoldTask

LAST = [place for place, kind in enumerate(SMALL.kinds) if kind.last]


def around(net: nn.Module) -> Learner:
    data = Examples(*rows(60, 0, turned=True))
    model = adapt(net, WeightDirections(len(SMALL.kinds)), example=data.inputs[:2])
    return Learner(OutOfFoldTask(model, metric=as_metric("accuracy"), train=data, search=data), SMALL)


def test_on_its_features_the_last_layer_gives_what_the_network_gives():
    own = learner()
    head = head_of(own, seed=0)
    assert head is not None and head.name == "4"
    found = head.learner.model.net(head.learner.val.inputs)
    torch.testing.assert_close(found, own.model.net(own.val.inputs))


def test_training_rows_keep_their_targets():
    own = learner()
    head = head_of(own, seed=0)
    assert head is not None and len(head.learner.task.train) == len(own.task.train)
    assert torch.equal(head.learner.task.train.targets, own.task.train.targets)


def test_only_the_last_layer_moves_and_it_learns():
    own = learner()
    fitted = fit(own, Plan(1e-2, 1e-2, 12, 1, 0.0), seed=0, tick=lambda _: None)
    assert len(fitted.states) == 1 + len(LAST)
    before = own.mean_loss(own.copy(), torch.arange(300))
    for state in fitted.states[1:]:
        assert set(state) == {"4.weight", "4.bias"}
        net = own.copy()
        net.load_state_dict({name: tensor[-1] for name, tensor in state.items()}, strict=False)
        assert own.mean_loss(net, torch.arange(300)) < before


def test_there_is_none_where_something_comes_after_it():
    assert head_of(around(nn.Sequential(nn.Linear(4, 3), nn.Softplus())), seed=0) is None


def test_there_is_none_where_it_is_frozen():
    net = network()
    for name, parameter in net.named_parameters():
        parameter.requires_grad_(not name.startswith("4"))
    assert head_of(around(net), seed=0) is None


def test_without_kinds_of_the_last_layer_there_are_none():
    whole = replace(SMALL, kinds=SMALL.of_all_weights)
    fitted = fit(learner(settings=whole), Plan(1e-2, 1e-2, 1, 2, 0.0), seed=0, tick=lambda _: None)
    assert len(fitted.states) == 2
