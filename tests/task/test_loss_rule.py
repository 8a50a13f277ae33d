"""Which loss is followed: the user's, the model's own, or what the targets suggest."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import metricopt as mo
from metricopt.adapters import DynamicBias, OutputAffine, adapt
from metricopt.core.errors import DataError
from metricopt.data.dataset import Batch, Examples
from metricopt.losses import cross_entropy
from metricopt.metrics import mcr
from metricopt.task.loss_rule import loss_rule
from metricopt.task.supervised import SupervisedTask


@dataclass
class ModelOutput:
    loss: Any = None
    logits: Any = None


class Classifier(nn.Module):
    """Computes a loss of its own where it is given labels, as those of Hugging Face do."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        for i, parameter in enumerate(self.parameters()):
            parameter.data = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(i))

    def forward(self, x, labels=None):
        logits = self.layer(x)
        loss = None if labels is None else 2 * functional.cross_entropy(logits, labels)
        return ModelOutput(loss, logits)


class Unlabelled(Classifier):
    def forward(self, x):
        return super().forward(x).logits


INPUTS = torch.randn(30, 4, generator=torch.Generator().manual_seed(5))
LABELS = torch.arange(30) % 3
NAMED = Examples({"x": INPUTS}, LABELS, label_key="labels")
PLAIN = Examples(INPUTS, LABELS)


def model_of(net, data):
    return adapt(net, OutputAffine(), example=data.inputs_at(slice(0, 2)))


def whole(data):
    return data.batch(torch.arange(len(data)))


def inside(net, data):
    return adapt(net, DynamicBias(dim=2), example=data.inputs_at(slice(0, 2)))


def test_a_network_that_is_given_labels_computes_its_own_loss_differentiably():
    model = inside(Classifier(), NAMED)
    rule = loss_rule(None, model, NAMED)
    assert rule.name == "the model's own loss" and rule.label_key == "labels"
    phi = torch.zeros(model.dim, requires_grad=True)
    loss = rule(model, phi, whole(NAMED))
    expected = 2 * functional.cross_entropy(Classifier().layer(INPUTS), LABELS)
    torch.testing.assert_close(loss.detach(), expected.detach())
    assert bool(torch.autograd.grad(loss, phi)[0].any())


def test_an_own_loss_that_knows_nothing_of_phi_is_not_followed():
    model = model_of(Classifier(), NAMED)  # its loss is computed before outputs are scaled and shifted
    rule = loss_rule(None, model, NAMED)
    assert rule.name == "cross_entropy"
    phi = torch.zeros(model.dim, requires_grad=True)
    assert bool(torch.autograd.grad(rule(model, phi, whole(NAMED)), phi)[0].any())


def test_other_names_of_the_targets_are_given_to_the_network_as_labels():
    data = Examples({"x": INPUTS}, LABELS, label_key="target")
    assert loss_rule(None, inside(Classifier(), data), data).label_key == "labels"
    without = loss_rule(None, model_of(Unlabelled(), data), data)
    assert without.name == "cross_entropy" and without.label_key is None


@pytest.mark.parametrize("net", [Classifier, Unlabelled])
def test_class_targets_without_a_loss_are_followed_by_cross_entropy(net):
    model = model_of(net(), PLAIN)
    rule = loss_rule(None, model, PLAIN)
    assert rule.name == "cross_entropy"
    expected = functional.cross_entropy(Classifier().layer(INPUTS), LABELS)
    assert float(rule(model, torch.zeros(model.dim), whole(PLAIN))) == pytest.approx(float(expected.detach()), rel=1e-5)


def test_numbers_without_a_loss_are_followed_by_the_squared_error():
    data = Examples(INPUTS, INPUTS.sum(1))
    net = nn.Linear(4, 1)
    model = adapt(net, OutputAffine(), example=INPUTS[:2])
    rule = loss_rule(None, model, data)
    expected = (net(INPUTS)[:, 0] - INPUTS.sum(1)).square().mean()
    assert rule.name == "mse_loss"
    assert float(rule(model, torch.zeros(model.dim), whole(data)).detach()) == pytest.approx(float(expected.detach()))


def test_the_users_loss_gets_outputs_and_targets_or_the_whole_batch():
    seen = []

    def of_targets(output, targets):
        seen.append((output, targets))
        return output.logits.sum()

    def of_batch(output, batch):
        seen.append((output, batch))
        return output.loss + output.logits.sum()

    model = model_of(Classifier(), NAMED)
    for loss in (of_targets, of_batch):
        loss_rule(loss, model, NAMED)(model, torch.zeros(model.dim), whole(NAMED))
    (first, targets), (second, batch) = seen
    assert torch.equal(targets, LABELS) and first.loss is None
    assert isinstance(batch, Batch) and torch.equal(batch.inputs["x"], INPUTS)
    assert second.loss is not None  # the network is given labels too
    names = [loss_rule(loss, model, NAMED).name for loss in (of_batch, nn.CrossEntropyLoss())]
    assert names == ["of_batch", "CrossEntropyLoss"]


def test_the_users_loss_goes_before_the_networks_own():
    model = model_of(Classifier(), NAMED)
    rule = loss_rule(lambda output, _targets: output.logits.mean(), model, NAMED)
    expected = float(Classifier().layer(INPUTS).mean().detach())
    assert float(rule(model, torch.zeros(model.dim), whole(NAMED))) == pytest.approx(expected, abs=1e-6)


def test_where_no_loss_can_be_told_one_sentence_says_so():
    boxes = Examples(INPUTS, [{"box": torch.ones(i % 3 + 1, 4)} for i in range(30)])
    with pytest.raises(DataError) as caught:
        loss_rule(None, model_of(Unlabelled(), boxes), boxes)
    assert str(caught.value) == (
        "no loss was given for targets a list of 2 ({'box': float32 (1, 4)}), and the model has none of its own; "
        "expected a function: pass loss=, with the network's output and the targets as its arguments"
    )


def test_the_losses_of_a_population_are_those_of_each_member_for_trees_and_for_tensors():
    phi = 0.3 * torch.randn(3, 6, generator=torch.Generator().manual_seed(1))
    tasks = [
        SupervisedTask(model_of(net(), data), loss=loss, metric=mcr(), train=data, search=data, batch_size=30)
        for net, data, loss in (
            (Unlabelled, PLAIN, cross_entropy),
            (Classifier, NAMED, lambda output, targets: cross_entropy(output.logits, targets)),
        )
    ]
    assert [task.simple for task in tasks] == [True, False]
    batch = whole(PLAIN)
    tensors = tasks[0].loss(phi, (batch.inputs.expand(3, -1, -1), batch.targets.expand(3, -1)))
    trees = tasks[1].loss(phi, [whole(NAMED)] * 3)
    torch.testing.assert_close(trees, tensors)


@pytest.mark.filterwarnings("ignore::metricopt.core.errors.SuspicionWarning")
def test_optimize_follows_the_models_own_loss_without_being_given_one():
    result = mo.optimize(
        Classifier(),
        metric="accuracy",
        train={"x": INPUTS[:10], "labels": LABELS[:10]},
        val={"x": INPUTS[10:], "labels": LABELS[10:]},
        queries=4,
        recipe=mo.Recipe(start_steps=3, candidates=20),
    )
    assert result.ledger.used == 4
