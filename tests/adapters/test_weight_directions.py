"""Weight directions: phi = 0 is the original bit for bit, phi = 1 the finetuned network, merging is adding."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from metricopt.adapters import FiLM, OutputAffine, WeightDirections, adapt
from metricopt.adapters.saved import load_adapter, save_adapter
from metricopt.adapters.weight_directions import WeightModulation, changes
from metricopt.core.errors import AdapterError


class Tied(nn.Module):
    """An embedding whose weights are the output layer's too."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.embedding(tokens).mean(1))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.memory = nn.LSTM(3, 5, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.memory(x)[0][:, -1]


NETS: dict[str, tuple[Any, Any]] = {
    "mlp": (lambda: nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)), (6, 4)),
    "conv": (lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)), (6, 1, 6, 6)),
    "attention": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (6, 5, 8)),
    "recurrent": (Recurrent, (6, 4, 3)),
    "tied": (Tied, None),
}  # fmt: skip


def moved(net: nn.Module) -> nn.Module:
    """Another network of the same kind, with other weights and statistics."""
    other = copy.deepcopy(net)
    for tensor in (*other.parameters(), *other.buffers()):
        if tensor.is_floating_point():
            tensor.data += 0.1 * torch.rand_like(tensor)
    return other


@pytest.fixture(params=NETS)
def case(request: pytest.FixtureRequest) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    build, shape = NETS[request.param]
    return build().eval(), torch.randint(0, 7, (6, 5)) if shape is None else torch.randn(*shape)


def test_zero_is_the_original_and_one_the_finetuned_network(case: tuple[nn.Module, Tensor]) -> None:
    net, x = case
    first, second = moved(net), moved(net)
    expected = [copy.deepcopy(net), copy.deepcopy(first), copy.deepcopy(second)]
    model = adapt(net, WeightDirections(directions=2), example=x)
    part = model.modulations[0]
    assert isinstance(part, WeightModulation)
    for direction, finetuned in enumerate((first, second)):
        part.set_changes(direction, changes(net, dict(finetuned.state_dict())))
    phi = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    with model.ordinary_attention(), torch.no_grad():
        outputs = model.outputs(phi, x)
        assert torch.equal(outputs[0], expected[0](x))
        for output, one in zip(outputs, expected, strict=True):
            torch.testing.assert_close(output, one(x))
        torch.testing.assert_close(net(x), expected[0](x), rtol=0, atol=0)  # nothing stays behind


def test_merging_is_adding_and_keeps_the_keys(case: tuple[nn.Module, Tensor]) -> None:
    net, x = case
    keys = list(net.state_dict())
    model = adapt(net, WeightDirections(), example=x)
    part = model.modulations[0]
    assert isinstance(part, WeightModulation)
    part.set_changes(0, changes(net, dict(moved(net).state_dict())))
    model.phi.data.fill_(0.5)
    merged = model.merge(x)
    assert list(merged.state_dict()) == keys
    with torch.no_grad(), model.ordinary_attention():
        torch.testing.assert_close(merged(x), model(x))


def test_film_and_output_affine_act_on_the_moved_weights_when_merged_too() -> None:
    torch.manual_seed(0)
    net, x = NETS["mlp"][0]().eval(), torch.randn(6, 4)
    model = adapt(net, OutputAffine() + FiLM(dim=4) + WeightDirections(), example=x)
    part = model.modulations[2]
    assert isinstance(part, WeightModulation)
    part.set_changes(0, changes(net, dict(moved(net).state_dict())))
    model.phi.data.copy_(torch.randn(model.dim))
    with torch.no_grad():
        torch.testing.assert_close(model.merge(x)(x), model(x), rtol=1e-4, atol=1e-5)


def test_gradients_reach_phi() -> None:
    torch.manual_seed(0)
    net, x = NETS["mlp"][0]().eval(), torch.randn(6, 4)
    model = adapt(net, WeightDirections(directions=2), example=x)
    part = model.modulations[0]
    assert isinstance(part, WeightModulation)
    part.set_changes(1, changes(net, dict(moved(net).state_dict())))
    part.set_changes(0, {})
    phi = torch.zeros(2, requires_grad=True)
    (found,) = torch.autograd.grad(model.output(phi, x).sum(), phi)
    assert found[0] == 0 and found[1] != 0


def test_a_variance_never_becomes_negative() -> None:
    net = nn.BatchNorm1d(2).eval()
    model = adapt(net, WeightDirections(tensors=("running_var",)), example=torch.ones(3, 2))
    part = model.modulations[0]
    assert isinstance(part, WeightModulation) and part.names == ("running_var",)
    part.set_changes(0, {"running_var": torch.tensor([-5.0, 0.0])})
    assert bool(model.output(torch.ones(1), torch.zeros(3, 2)).isfinite().all())


def test_saved_and_loaded_it_is_the_same_function(tmp_path: Any) -> None:
    torch.manual_seed(0)
    net, x = NETS["mlp"][0]().eval(), torch.randn(6, 4)
    model = adapt(copy.deepcopy(net), WeightDirections(tensors=("3.*",)) + OutputAffine(), example=x)
    part = model.modulations[0]
    assert isinstance(part, WeightModulation)
    part.set_changes(0, changes(net, dict(moved(net).state_dict())))
    model.phi.data.fill_(0.3)
    save_adapter(model, tmp_path)
    assert torch.equal(load_adapter(tmp_path, net, example=x)(x), model(x))


def test_weights_that_are_not_there_are_refused() -> None:
    with pytest.raises(AdapterError, match=r"no weight is called nothing; expected names such as weight, bias"):
        adapt(nn.Linear(2, 1), WeightDirections(tensors=("nothing",)))
