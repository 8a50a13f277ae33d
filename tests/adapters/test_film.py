import pytest
import torch
from torch import nn

from metricopt.adapters import FiLM, adapt
from metricopt.core.errors import AdapterError


def test_each_channel_is_scaled_and_shifted_by_its_own_linear_function_of_phi():
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    model = adapt(net, FiLM(dim=5))
    model.phi.data = torch.randn(5, generator=torch.Generator().manual_seed(0))
    x = torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(1))
    h, found = net(x), model(x)
    scale = model.state_dict()["modulations.0.scale.matrix"]
    shift = model.state_dict()["modulations.0.shift.matrix"]
    for channel in range(4):
        expected = h[:, channel] * (1 + scale[channel] @ model.phi) + shift[channel] @ model.phi
        torch.testing.assert_close(found[:, channel], expected)


@pytest.mark.parametrize("dim", [1, 16, 300])
def test_a_random_phi_modulates_with_the_same_strength_in_any_dimension(dim):
    model = adapt(nn.Sequential(nn.Linear(3, 400), nn.BatchNorm1d(400)), FiLM(dim=dim, strength=0.3))
    phi = torch.randn(2000, dim, generator=torch.Generator().manual_seed(0))
    numbers = phi @ model.state_dict()["modulations.0.scale.matrix"].T  # (2000, channels)
    torch.testing.assert_close(numbers.std(0), torch.full((400,), 0.3), rtol=0.1, atol=0)


def test_batch_norms_come_first_and_other_norms_only_without_them():
    both = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.BatchNorm1d(4), nn.GroupNorm(2, 4))
    assert adapt(both, FiLM()).layers == ("2",)
    other = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.GroupNorm(2, 4))
    assert adapt(other, FiLM()).layers == ("1", "2")


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Linear(3, 4), (2, 5, 3)),
        (nn.Conv1d(3, 4, 2), (2, 3, 6)),
        (nn.Conv3d(3, 4, 1), (2, 3, 2, 2, 2)),
        (nn.GroupNorm(2, 4), (2, 4, 5)),
        (nn.LayerNorm((3, 4)), (2, 3, 4)),
        (nn.BatchNorm1d(4), (2, 4, 5)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_named_layers_of_any_kind_are_modulated_and_merged(layer, shape):
    model = adapt(nn.Sequential(layer), FiLM(dim=3, layers="0"))
    model.phi.data = torch.tensor([1.0, -2.0, 0.5])
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    assert (model(x) - layer(x)).abs().max() > 0.01
    torch.testing.assert_close(model.merge()(x), model(x), rtol=1e-4, atol=1e-5)


def test_a_network_without_norms_is_told_to_name_layers():
    with pytest.raises(AdapterError, match=r"no layer to modulate.*FiLM\(layers=.*'0' \(Linear\)"):
        adapt(nn.Sequential(nn.Linear(3, 4), nn.ReLU()), FiLM())


def test_phi_has_one_coordinate_at_least():
    with pytest.raises(AdapterError, match="dim is 0"):
        FiLM(dim=0)
