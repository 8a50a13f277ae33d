"""Networks without their first layers: the same outputs from features as from images."""

import pytest
import torch

from metricopt.adapters import FiLM
from metricopt.data.dataset import Examples
from metricopt.losses import cross_entropy
from metricopt.metrics import mcr
from metricopt_lab.networks import resnet32, small_convnet
from metricopt_lab.problems import Problem
from metricopt_lab.problems.cifar import CIFAR_SCALES
from metricopt_lab.problems.cifar_tails import without_front

X = torch.randn(12, 3, 32, 32, generator=torch.Generator().manual_seed(0))
DATA = Examples(X, torch.arange(12) % 10)


def whole(network: str) -> Problem:
    torch.manual_seed(0)
    net = {"resnet32": resnet32, "small_convnet": small_convnet}[network]().eval()
    adapter = FiLM(dim=6, layers=CIFAR_SCALES["small"].layers[network])
    parts = dict.fromkeys(("train", "search", "accept", "test"), DATA)
    return Problem(network, net, adapter, cross_entropy, mcr(), **parts, sampling="plain", batch_size=4, notes="",
                   seed=3)  # fmt: skip


@pytest.mark.parametrize("network", ["resnet32", "small_convnet"])
def test_an_adapter_of_the_last_layers_gives_the_same_outputs_for_any_phi(network):
    problem = whole(network)
    phi = torch.randn(3, 6, generator=torch.Generator().manual_seed(1))
    found = without_front(problem).outputs(phi, "test")
    torch.testing.assert_close(found, problem.outputs(phi, "test"), atol=1e-5, rtol=1e-5)
    assert found.std(0).min() > 0  # phi does reach the layers that are left


def test_the_network_of_the_problem_is_left_as_it_was():
    problem = whole("resnet32")
    before = {name: value.clone() for name, value in problem.net.state_dict().items()}
    without_front(problem)
    assert all(torch.equal(value, before[name]) for name, value in problem.net.state_dict().items())
