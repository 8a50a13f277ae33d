import torch
from torch import nn

from metricopt.adapters import FiLM, adapt
from metricopt_lab.networks import MODELS, TabularMLP, resnet32, small_convnet


def test_the_tabular_network_has_the_papers_layers():
    net = TabularMLP(54, hidden=(100, 30, 10))
    linear = [(m.in_features, m.out_features) for m in net.modules() if isinstance(m, nn.Linear)]
    assert linear == [(54, 100), (100, 30), (30, 10), (10, 1)]
    for kind in (nn.BatchNorm1d, nn.LeakyReLU, nn.Dropout):
        assert sum(isinstance(module, kind) for module in net.modules()) == 3


def test_one_logit_is_one_number_a_row_and_several_are_a_row_of_numbers():
    x = torch.zeros(1, 6)
    assert TabularMLP(6).eval()(x).shape == (1,)
    assert TabularMLP(6, outputs=2).eval()(x).shape == (1, 2)


def test_resnet32_has_32_weighted_layers_and_parameter_free_shortcuts():
    net = resnet32()
    layers = [module for module in net.modules() if isinstance(module, nn.Conv2d | nn.Linear)]
    assert len(layers) == 32
    # He et al. 2016, Table 6, give 0.46 million parameters.
    assert sum(parameter.numel() for parameter in net.parameters()) == 464154


def test_a_shortcut_takes_every_second_pixel_and_pads_the_channels_on_both_sides():
    block = resnet32().stage2[0]
    block.norm2.weight.data.zero_()
    x = torch.rand(2, 16, 8, 8, generator=torch.Generator().manual_seed(0))
    out = block.eval()(x)
    expected = torch.zeros(2, 32, 4, 4)
    expected[:, 8:24] = x[:, :, ::2, ::2]
    assert torch.equal(out, expected)


def test_the_small_network_has_two_convolutions_and_three_linear_layers():
    net = small_convnet()
    shapes = [tuple(m.weight.shape) for m in net.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    assert shapes == [(64, 3, 5, 5), (64, 64, 5, 5), (384, 4096), (192, 384), (10, 192)]
    assert net(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
    assert adapt(net, FiLM(layers="conv*")).layers == ("conv1", "conv2")


def test_the_networks_are_known_by_name():
    assert set(MODELS) == {
        "tabular_mlp", "resnet32", "small_convnet", "omniglot_embedding", "nasnet_a", "resnet18",
    }  # fmt: skip
    assert MODELS["resnet32"] is resnet32
