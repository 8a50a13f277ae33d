import copy

import pytest
import torch
from torch import nn

from metricopt.adapters import DynamicBias, FiLM, LastLayer, OutputAffine, Parameters, adapt
from metricopt.core.errors import AdapterError


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))


def test_each_part_of_a_sum_acts_through_its_own_slice_as_it_would_alone():
    base = net()
    both = adapt(base, DynamicBias(dim=5) + FiLM(dim=7))
    alone = adapt(base, DynamicBias(dim=5))
    both.phi.data[:5] = alone.phi.data[:] = torch.arange(5.0)
    x = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(both(x), alone(x))
    assert both.spec.parts == (DynamicBias(dim=5), FiLM(dim=7))


def test_two_models_can_share_one_network():
    base = net()
    first, second = adapt(base, DynamicBias(dim=2)), adapt(base, FiLM(dim=2))
    first.phi.data.fill_(1)
    assert torch.equal(second(torch.ones(1, 3)), base(torch.ones(1, 3)))
    assert not torch.equal(first(torch.ones(1, 3)), base(torch.ones(1, 3)))


def test_a_network_switched_to_training_by_its_owner_still_runs_in_eval_mode():
    base = net()
    model = adapt(base, FiLM(dim=2))
    before = copy.deepcopy(base.state_dict())
    expected = base(torch.ones(5, 3))
    base.train()
    assert torch.equal(model(torch.ones(5, 3)), expected)
    assert all(torch.equal(tensor, before[name]) for name, tensor in base.state_dict().items())


def test_an_error_inside_the_network_leaves_it_without_hooks():
    base = net()
    model = adapt(base, FiLM(dim=2))
    with pytest.raises(RuntimeError):
        model(torch.ones(5, 99))
    assert not any(module._forward_hooks for module in base.modules())


def test_a_failed_adaptation_leaves_the_flags_alone():
    base = net()
    with pytest.raises(AdapterError):
        adapt(base, FiLM(layers="nowhere"))
    assert base.training and all(parameter.requires_grad for parameter in base.parameters())


def test_double_precision_stays_double():
    base = net().double()
    model = adapt(base, FiLM(dim=2) + OutputAffine())
    x = torch.ones(2, 3, dtype=torch.float64)
    assert model.phi.dtype == torch.float64
    assert torch.equal(model(x), base(x))


def test_under_autocast_the_network_is_still_itself_at_zero():
    base = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).eval()
    model = adapt(base, DynamicBias(dim=2) + OutputAffine())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, expected = model(torch.ones(2, 3)), base(torch.ones(2, 3))
    assert found.dtype == expected.dtype == torch.bfloat16
    assert torch.equal(found, expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_network_of_half_precision_keeps_its_type_and_its_bits_and_phi_is_single(dtype):
    base = net().to(dtype).eval()
    x = torch.randn(5, 3).to(dtype)
    model = adapt(base, FiLM(dim=2) + Parameters("*weight", dim=3) + OutputAffine(), example=x)
    assert model.phi.dtype == torch.float32
    assert model(x).dtype == dtype and torch.equal(model(x), base(x))
    assert model.outputs(torch.ones(1, model.dim), x).dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_merged_a_network_of_half_precision_is_still_of_it(dtype):
    base = net().to(dtype).eval()
    x = torch.randn(50, 3).to(dtype)
    model = adapt(base, FiLM(dim=2) + LastLayer() + OutputAffine(), example=x)
    model.phi.data.fill_(0.3)
    merged = model.merge()
    assert {parameter.dtype for parameter in merged.parameters()} == {dtype}
    torch.testing.assert_close(merged(x).float(), model(x).float(), rtol=0, atol=8 * torch.finfo(dtype).eps)


def test_weights_that_are_not_there_are_named():
    spread = net()
    spread[3].to("meta")
    with pytest.raises(AdapterError, match="2 of 8 weights are on the meta device"):
        adapt(spread, FiLM())


def test_inputs_on_another_device_are_named():
    model = adapt(net(), FiLM(dim=2))
    with pytest.raises(AdapterError, match=r"inputs are on meta, the network on cpu.*inputs.to\('cpu'\)"):
        model(torch.ones(2, 3, device="meta"))
    with pytest.raises(AdapterError, match="inputs are on meta"):
        model.outputs(torch.zeros(1, 2), torch.ones(2, 3, device="meta"))


def test_an_adapted_model_is_not_adapted_again():
    with pytest.raises(AdapterError, match=r"adapted already.*model.spec \+ another"):
        adapt(adapt(net(), FiLM()), OutputAffine())


def test_tensors_of_another_adapter_are_refused():
    with pytest.raises(AdapterError, match="adapt with the spec they are from"):
        adapt(net(), FiLM(dim=2)).load_tensors(adapt(net(), FiLM(dim=3)).tensors())


def test_tensors_are_phi_and_the_fixed_matrices_only():
    names = set(adapt(net(), FiLM(dim=2) + OutputAffine()).tensors())
    assert names == {"phi", "modulations.0.scale.matrix", "modulations.0.shift.matrix"}


def test_merged_parameters_require_gradients_as_before_adaptation():
    base = net()
    base[0].weight.requires_grad_(False)
    base[3].bias.requires_grad_(False)
    merged = adapt(base, OutputAffine()).merge()
    frozen = {name for name, parameter in merged.named_parameters() if not parameter.requires_grad}
    assert frozen == {"0.weight", "3.bias"}


class Twins(nn.Module):
    """Two layers with one weight between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(self.first(x).relu())


def test_merging_into_one_of_two_layers_that_share_a_weight_leaves_the_other_alone():
    model = adapt(Twins(), OutputAffine())
    model.phi.data.fill_(0.5)
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(model.merge()(x), model(x))


def test_attention_is_left_as_it_was_found():
    model = adapt(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), FiLM(dim=2))
    model(torch.ones(1, 3, 4))
    assert torch.backends.mha.get_fastpath_enabled()
