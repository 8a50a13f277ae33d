import copy

import pytest
import torch
from torch import nn

from metricopt.adapters import Biases, LastLayer, adapt
from metricopt.adapters.graph.split import Cut
from metricopt.core.errors import AdapterError

LAYERS = {
    "linear": (lambda: nn.Linear(4, 3), (5, 4), 3),
    "linear without bias": (lambda: nn.Linear(4, 3, bias=False), (5, 4), 3),
    "convolution": (lambda: nn.Conv2d(2, 3, 3), (5, 2, 6, 6), 3),
    "batch norm": (lambda: nn.BatchNorm2d(3), (5, 3, 2, 2), 3),
    "batch norm without affine": (lambda: nn.BatchNorm1d(3, affine=False), (5, 3), 3),
    "layer norm": (lambda: nn.LayerNorm(4), (5, 4), 4),
    "group norm": (lambda: nn.GroupNorm(1, 3), (5, 3, 4), 3),
}


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def net():
    layers = nn.Sequential(nn.Linear(6, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    for i, parameter in enumerate(layers.parameters()):
        parameter.data = numbers(*parameter.shape, seed=i)
    return layers.eval()


@pytest.mark.parametrize("name", LAYERS)
def test_each_coordinate_is_added_to_one_bias(name):
    make, shape, channels = LAYERS[name]
    layer, x = make().eval(), numbers(*shape)
    model = adapt(nn.Sequential(layer), Biases(layers="0", strength=0.5))
    model.phi.data = torch.arange(1.0, channels + 1)
    moved = copy.deepcopy(layer)
    before = torch.zeros(channels) if layer.bias is None else layer.bias
    moved.bias = nn.Parameter(before + 0.5 * model.phi)
    if layer.weight is None:
        moved.weight = nn.Parameter(torch.ones(channels))
    torch.testing.assert_close(model(x), moved(x))
    torch.testing.assert_close(model.merge()(x), moved(x))


def test_without_names_it_takes_the_layers_that_have_biases_in_the_order_of_definition():
    assert adapt(net(), Biases()).layers == ("1", "3")

    class Backwards(nn.Module):
        def __init__(self):
            super().__init__()
            self.last, self.first = nn.Linear(5, 2), nn.Linear(4, 5)

        def forward(self, x):
            return self.last(self.first(x))

    assert adapt(Backwards(), Biases()).layers == ("last", "first")
    assert adapt(Backwards(), Biases(), example=torch.ones(2, 4)).layers == ("last", "first")


def test_a_network_without_any_bias_is_refused():
    with pytest.raises(AdapterError, match=r"no layer has a bias: '0' \(Linear\); expected one: name some in Biases"):
        adapt(nn.Sequential(nn.Linear(4, 3, bias=False)), Biases())


@pytest.mark.parametrize("bias", [True, False])
def test_the_last_layers_weights_and_biases_move_with_phi(bias):
    layers = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3, bias=bias))
    x, model = numbers(7, 6), adapt(layers, LastLayer(strength=2.0))
    assert model.dim == 3 * 8 + 3
    phi = numbers(model.dim)
    model.phi.data.copy_(phi)
    moved = copy.deepcopy(layers)
    before = torch.zeros(3) if moved[2].bias is None else moved[2].bias.detach()
    moved[2].weight.data += 2 / 8**0.5 * phi[:24].reshape(3, 8)
    moved[2].bias = nn.Parameter(before + 2 * phi[24:])
    torch.testing.assert_close(model(x), moved(x))
    torch.testing.assert_close(model.merge(x)(x), moved(x))


def test_unit_coordinates_change_the_last_layers_outputs_alike_whatever_its_width():
    spread = []
    for width in (10, 1000):
        model = adapt(nn.Linear(width, 50), LastLayer())
        model.phi.data = numbers(model.dim)
        model.phi.data[-50:] = 0
        x = numbers(200, width, seed=1)
        spread.append(float((model(x) - model.net(x)).detach().std()))
    assert spread == pytest.approx([1.0, 1.0], rel=0.1)


@pytest.mark.parametrize(("spec", "width"), [(Biases(layers="3"), 3), (LastLayer(), 8), (Biases(), 8)])
def test_only_what_follows_the_first_changed_layer_is_computed_for_each_phi(spec, width):
    model, x = adapt(net(), spec), numbers(9, 6)
    cut = Cut(model, x)
    crossing = cut.before(x)
    assert [tensor.shape for tensor in crossing] == [(9, width)]
    phi = numbers(5, model.dim, seed=3)
    torch.testing.assert_close(cut.outputs(phi, crossing), model.outputs(phi, x), rtol=1e-4, atol=1e-5)


def test_the_last_layer_must_be_linear():
    with pytest.raises(AdapterError, match="LastLayer needs a Linear"):
        adapt(nn.Sequential(nn.Conv2d(1, 2, 3)), LastLayer())
