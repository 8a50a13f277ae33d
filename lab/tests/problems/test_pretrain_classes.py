"""Networks for data with another number of classes than ten are trained, kept and loaded with as many outputs."""

import pytest
import torch

from metricopt.data.dataset import Examples
from metricopt_lab.data.cifar10 import Cifar10Split
from metricopt_lab.data.tiny_imagenet import held_out
from metricopt_lab.problems.pretrain_images import plan_for, pretrain_images
from metricopt_lab.problems.pretrained import load_network
from metricopt_lab.problems.train_images import Plan


@pytest.mark.parametrize("model", ["resnet18", "nasnet_a"])
def test_a_network_has_as_many_outputs_as_there_are_classes_and_comes_back_so(model, tmp_path):
    part = Examples(torch.randn(12, 3, 32, 32, generator=torch.Generator().manual_seed(0)), torch.arange(12))
    facts = pretrain_images(model, Cifar10Split(part, part, part), Plan(1, 6, 0.01, False), folder=tmp_path)
    net = load_network(tmp_path)
    assert facts["classes"] == 12
    assert net(part.inputs).shape == (12, 12)


def test_fewer_images_are_gone_through_more_often():
    assert plan_for("nasnet_a", "tinyimagenet").epochs == 3 * plan_for("nasnet_a").epochs


def test_as_many_of_every_class_are_held_out_and_always_the_same():
    labels = torch.arange(600) % 6
    held = held_out(labels, each=7)
    assert torch.bincount(labels[held]).tolist() == [7] * 6
    assert torch.equal(held, held_out(labels, each=7))
