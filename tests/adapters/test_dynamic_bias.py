import pytest
import torch
from torch import nn

from metricopt.adapters import DynamicBias, adapt
from metricopt.core.errors import AdapterError


def test_it_is_the_network_with_phi_concatenated_to_its_inputs():
    net = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 2))
    model = adapt(net, DynamicBias(dim=4))
    model.phi.data = torch.tensor([1.0, -1.0, 2.0, 0.5])
    wide = nn.Linear(3 + 4, 6)
    wide.weight.data = torch.cat([net[0].weight, model.state_dict()["modulations.0.shift.matrix"]], dim=1)
    wide.bias.data = net[0].bias
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    expected = net[2](wide(torch.cat([x, model.phi.expand(5, 4)], dim=1)).relu())
    torch.testing.assert_close(model(x), expected)


class DefinedBackwards(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.second = nn.Linear(4, 2)
        self.first = nn.Linear(3, 4)

    def forward(self, x):
        return self.second(self.first(x).relu())


def test_the_first_layer_is_the_first_called_if_an_example_shows_it():
    assert adapt(DefinedBackwards(), DynamicBias()).layers == ("second",)
    assert adapt(DefinedBackwards(), DynamicBias(), example=torch.zeros(1, 3)).layers == ("first",)
    assert adapt(DefinedBackwards(), DynamicBias(layer="first")).layers == ("first",)


def test_the_projection_that_attention_never_calls_is_passed_over():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    assert adapt(layer, DynamicBias()).layers == ("linear1",)


def test_a_network_without_linear_layers_is_told_what_suits_it():
    with pytest.raises(AdapterError, match="DynamicBias needs a Linear; FiLM suits"):
        adapt(nn.Sequential(nn.Conv2d(3, 4, 3)), DynamicBias())


def test_a_linear_layer_without_bias_gets_one_when_merged():
    net = nn.Sequential(nn.Linear(3, 4, bias=False))
    model = adapt(net, DynamicBias(dim=2))
    model.phi.data = torch.ones(2)
    merged = model.merge()
    x = torch.ones(1, 3)
    torch.testing.assert_close(merged(x), model(x))
    assert set(merged.state_dict()) == {"0.weight", "0.bias"}
    assert net[0].bias is None
