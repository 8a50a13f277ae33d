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


def test_nasnet_a_has_the_cells_of_the_paper_and_concatenates_them():
    net = MODELS["nasnet_a"](classes=7, filters=4)
    kinds = [cell.reduces for cell in net.cells]
    assert kinds == [False, True, False, True, False]
    x = torch.zeros(2, 12, 16, 16)
    first = net.cells[0](x, x)
    assert first.shape == (2, 6 * 4, 16, 16)  # the input and five blocks
    assert net.cells[1](x, first).shape == (2, 4 * 8, 8, 8)  # four blocks that no other uses
    assert net(torch.zeros(2, 3, 32, 32)).shape == (2, 7)
    # Figure 4: five pairs of operations a cell, of which five are separable convolutions, each applied twice.
    depthwise = [m for m in net.cells[1].modules() if isinstance(m, nn.Conv2d) and m.groups > 1]
    assert sorted(m.kernel_size[0] for m in depthwise) == [3, 3, 5, 5, 5, 5, 7, 7, 7, 7]


def test_resnet18_has_18_weighted_layers_beside_its_projections():
    net = MODELS["resnet18"](classes=5, width=4)
    layers = [
        m for m in net.modules() if isinstance(m, nn.Linear | nn.Conv2d) and getattr(m, "kernel_size", 0) != (1, 1)
    ]
    assert len(layers) == 18
    assert net(torch.zeros(2, 3, 32, 32)).shape == (2, 5)


def test_both_take_the_same_film_of_the_same_size():
    for name in ("nasnet_a", "resnet18"):
        model = adapt(MODELS[name](), FiLM(dim=8), example=torch.zeros(2, 3, 32, 32))
        assert model.dim == 8
