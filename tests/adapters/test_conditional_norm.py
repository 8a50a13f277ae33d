import copy

import pytest
import torch
from torch import nn

from metricopt.adapters import ConditionalNorm, FiLM, adapt
from metricopt.core.errors import AdapterError

NORMS = {
    "batch norm": (lambda: nn.BatchNorm2d(4), (3, 4, 5, 5)),
    "batch norm without affine": (lambda: nn.BatchNorm1d(4, affine=False), (3, 4)),
    "batch norm without statistics": (lambda: nn.BatchNorm1d(4, track_running_stats=False), (6, 4)),
    "layer norm": (lambda: nn.LayerNorm(4), (3, 7, 4)),
    "layer norm without bias": (lambda: nn.LayerNorm(4, bias=False), (3, 4)),
    "group norm": (lambda: nn.GroupNorm(2, 4), (3, 4, 5)),
}


@pytest.mark.parametrize("name", NORMS)
def test_it_is_the_layer_with_its_gamma_and_beta_moved(name):
    make, shape = NORMS[name]
    layer = make()
    model = adapt(nn.Sequential(layer), ConditionalNorm(dim=3))
    model.phi.data = torch.tensor([1.0, -2.0, 0.5])
    moved = copy.deepcopy(layer)
    gamma = torch.ones(4) if layer.weight is None else layer.weight
    beta = torch.zeros(4) if layer.bias is None else layer.bias
    moved.weight = nn.Parameter(gamma + model.state_dict()["modulations.0.scale.matrix"] @ model.phi)
    moved.bias = nn.Parameter(beta + model.state_dict()["modulations.0.shift.matrix"] @ model.phi)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(model(x), moved(x), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(model.merge()(x), moved(x), rtol=1e-4, atol=1e-5)


def test_a_channel_whose_gamma_is_zero_is_scaled_by_it_but_not_by_film():
    norm = nn.BatchNorm1d(4)
    norm.weight.data.zero_()
    x = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    spread = {}
    for kind in (ConditionalNorm, FiLM):
        model = adapt(nn.Sequential(norm), kind(dim=3))
        model.phi.data.fill_(1)
        spread[kind] = model(x).std(0)
    assert (spread[ConditionalNorm] > 0.01).all() and (spread[FiLM] == 0).all()


def test_it_takes_norm_layers_only():
    with pytest.raises(AdapterError, match=r"\(BatchNorm1d.*is named '0'"):
        adapt(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), ConditionalNorm(layers="0"))
    with pytest.raises(AdapterError, match="ConditionalNorm needs BatchNorm"):
        adapt(nn.Sequential(nn.Linear(3, 4)), ConditionalNorm())


def test_film_and_conditional_norm_on_one_layer_merge_in_the_order_they_act():
    norm = nn.BatchNorm1d(4)
    norm.bias.data = torch.arange(4.0)
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    for spec in (FiLM(dim=2) + ConditionalNorm(dim=3), ConditionalNorm(dim=3) + FiLM(dim=2)):
        model = adapt(nn.Sequential(norm), spec)
        model.phi.data.fill_(1.5)
        torch.testing.assert_close(model.merge()(x), model(x))
