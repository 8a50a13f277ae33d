"""What holds for every registered adapter, alone and in a sum, on an MLP, a residual ConvNet and a transformer."""

import copy
import json
import pickle

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from metricopt.adapters import ADAPTERS, AdaptedModel, Adapter, adapt, adapter_from, merge, remove


class ResidualConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6), nn.ReLU())
        self.block = nn.Sequential(nn.Conv2d(6, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6))
        self.head = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        return self.head((x + self.block(x)).relu().mean((2, 3)))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(5, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(self.embed(x)).mean(1))


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Linear(7, 10), nn.BatchNorm1d(10), nn.LeakyReLU(), nn.Dropout(0.5), nn.Linear(10, 1), nn.Flatten(0)
    )


SHAPES = {mlp: (7,), ResidualConvNet: (3, 8, 8), Transformer: (6, 5)}
SPECS: dict[str, Adapter] = {name: ADAPTERS[name]() for name in ADAPTERS}
SPECS["sum of all"] = sum(list(SPECS.values())[1:], start=next(iter(SPECS.values())))


@pytest.fixture(params=SHAPES, ids=lambda make: make.__name__)
def net(request) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = request.param()
        for module in net.modules():
            if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
                # As after training: neither the statistics nor the affine parameters are those of a new layer.
                for tensor in (module.running_mean, module.weight, module.bias):
                    tensor.data.normal_()
                module.running_var.uniform_(0.5, 2)
        net.example = torch.randn(9, *SHAPES[request.param])
    return net


@pytest.fixture(params=SPECS)
def spec(request) -> Adapter:
    return SPECS[request.param]


@pytest.fixture
def model(net: nn.Module, spec: Adapter) -> AdaptedModel:
    return adapt(net, spec)


def frozen_output(net: nn.Module) -> Tensor:
    """The network's own answer by the ordinary code of nn.MultiheadAttention, as whenever its weights are trained."""
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad():
            return copy.deepcopy(net).eval()(net.example)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


def somewhere(model: AdaptedModel, population: int | None = None, scale: float = 0.5) -> Tensor:
    shape = (model.dim,) if population is None else (population, model.dim)
    return scale * torch.randn(shape, generator=torch.Generator().manual_seed(1))


def at(model: AdaptedModel, phi: Tensor) -> AdaptedModel:
    model.phi.data.copy_(phi)
    return model


def test_at_zero_the_model_is_the_frozen_network_bit_for_bit(net, spec):
    expected = frozen_output(net)
    model = adapt(net, spec)
    assert torch.equal(model.phi, torch.zeros(model.dim))
    assert torch.equal(model(net.example), expected)
    with torch.no_grad():
        assert torch.equal(model(net.example), expected)
        # torch's fused inference code for transformers differs from its own ordinary code in the last bits.
        torch.testing.assert_close(net(net.example), expected, rtol=1e-5, atol=1e-5)


def test_a_phi_other_than_zero_changes_the_output_but_not_that_of_the_bare_network(model, net):
    before = net(net.example)
    changed = at(model, somewhere(model))(net.example)
    assert (changed - before).abs().max() > 1e-2
    assert torch.equal(net(net.example), before)


def test_every_coordinate_of_phi_has_a_gradient_and_nothing_else_does(model, net):
    slopes = []
    for sign in (1, -1):  # at a single phi a ReLU may be off for every row
        model.phi.grad = None
        at(model, sign * somewhere(model))(net.example).square().sum().backward()
        slopes.append(model.phi.grad.abs())
    assert [name for name, parameter in model.named_parameters() if parameter.grad is not None] == ["phi"]
    assert (slopes[0] + slopes[1]).min() > 0


def test_weights_and_statistics_stay_as_they_are_through_training_steps(model, net):
    before = copy.deepcopy(net.state_dict())
    model.train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(net.example).square().mean().backward()
        optimizer.step()
    assert model.phi.abs().max() > 0
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
    assert model.training and not any(module.training for module in net.modules())


def test_a_merged_network_is_plain_and_computes_the_same(model, net):
    at(model, somewhere(model))
    merged = merge(model, net.example)
    assert type(merged) is type(net) and merged is not net
    assert merged.state_dict().keys() == net.state_dict().keys()
    assert not any(module._forward_hooks for module in merged.modules())
    torch.testing.assert_close(merged(net.example), model(net.example), rtol=1e-4, atol=1e-5)


def test_an_example_leads_to_the_same_model(net, spec):
    guessed, probed = adapt(net, spec), adapt(net, spec, example=net.example)
    phi = somewhere(guessed)
    assert torch.equal(at(guessed, phi)(net.example), at(probed, phi)(net.example))


@pytest.mark.parametrize("paired", [False, True])
def test_a_population_gives_what_a_loop_over_its_members_gives(model, net, paired):
    phi = somewhere(model, 4)
    batches = torch.randn(4, *net.example.shape, generator=torch.Generator().manual_seed(2))
    expected = [at(model, phi[i])(batches[i] if paired else net.example) for i in range(4)]
    found = model.outputs(phi, batches if paired else net.example, paired=paired)
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-4, atol=1e-5)
    assert model._vectorises


def test_the_gradient_of_a_population_is_that_of_each_member(model, net):
    phi = somewhere(model, 3).requires_grad_()
    model.outputs(phi, net.example).square().sum().backward()
    for i in range(3):
        model.phi.grad = None
        at(model, phi[i].detach())(net.example).square().sum().backward()
        torch.testing.assert_close(phi.grad[i], model.phi.grad, rtol=1e-3, atol=1e-4)


def test_the_model_is_a_pure_function_of_phi_for_torch_func(model, net):
    phi = somewhere(model)
    outside = functional_call(model, {"phi": phi}, (net.example,))
    assert torch.equal(outside, at(model, phi)(net.example))


def test_a_deep_copy_follows_its_own_phi(model, net):
    at(model, somewhere(model))
    before = model(net.example)
    twin = copy.deepcopy(model)
    assert torch.equal(twin(net.example), before)
    at(twin, -twin.phi.data)
    assert torch.equal(model(net.example), before)
    assert not torch.equal(twin(net.example), before)


def test_pickling_keeps_the_function(model, net):
    at(model, somewhere(model))
    back = pickle.loads(pickle.dumps(model))
    assert torch.equal(back(net.example), model(net.example))
    at(back, torch.zeros(back.dim))
    assert not torch.equal(back(net.example), model(net.example))


def test_removing_gives_back_the_very_network_with_its_flags(net, spec):
    first = next(iter(net.parameters()))
    first.requires_grad_(False)
    net.train()
    model = adapt(net, spec)
    assert not net.training and not any(p.requires_grad for p in net.parameters())
    assert remove(model) is net
    assert net.training and not first.requires_grad
    assert all(p.requires_grad for p in net.parameters() if p is not first)
    assert not any(module._forward_hooks for module in net.modules())


def test_the_seed_decides_the_fixed_matrices(net, spec):
    names = [name for name, _ in adapt(net, spec).named_buffers() if name.startswith("modulations.")]
    first, again, other = (adapt(net, spec, seed=seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(first[name], again[name]) for name in names)
    assert not any(torch.equal(first[name], other[name]) for name in names)


def test_a_model_can_be_rebuilt_from_plain_data_and_tensors(model, net):
    at(model, somewhere(model))
    plain = json.loads(json.dumps(model.spec_dict()))
    other = adapt(net, adapter_from(plain["adapters"]), seed=plain["seed"] + 1)
    other.load_tensors(model.tensors())
    assert other.spec == model.spec
    assert torch.equal(other(net.example), model(net.example))


def test_the_fingerprint_is_that_of_the_network_and_the_adapter_but_not_of_phi(model, net):
    first = model.fingerprint()
    assert at(model, somewhere(model)).fingerprint() == first == copy.deepcopy(model).fingerprint()
    assert adapt(net, model.spec, seed=1).fingerprint() != first
    next(iter(net.parameters())).data[0] += 1e-6
    assert model.fingerprint() != first
