import pytest
import torch
from torch import nn

from metricopt.adapters import DynamicBias, adapt
from metricopt.core.errors import AdapterError


class Branching(nn.Module):
    """Takes one of two ways depending on the data, which vmap cannot follow."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.runs = 0

    def forward(self, x):
        self.runs += 1
        h = self.layer(x)
        return h if h.sum() > 0 else -2 * h


def members(model, population=4):
    return 5 * torch.randn(population, model.dim, generator=torch.Generator().manual_seed(0))


def test_a_network_that_cannot_be_vectorised_is_looped_over_from_then_on():
    net = Branching()
    model = adapt(net, DynamicBias(dim=2))
    phi, x = members(model), torch.ones(5, 3)
    found = model.outputs(phi, x)
    for i in range(4):
        model.phi.data = phi[i]
        assert torch.equal(found[i], model(x))
    net.runs = 0
    model.outputs(phi, x)
    assert net.runs == 4


def test_an_error_of_the_network_itself_is_not_taken_for_a_failure_of_vmap():
    model = adapt(nn.Sequential(nn.Linear(3, 2)), DynamicBias(dim=2))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        model.outputs(members(model), torch.ones(5, 99))
    assert model._vectorises


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x, weight):
        return self.layer(x) * weight


@pytest.mark.parametrize("paired", [False, True])
def test_inputs_may_be_positional_or_by_name(paired):
    model = adapt(TwoInputs(), DynamicBias(dim=2), example=(torch.ones(5, 3), torch.ones(5, 1)))
    phi = members(model)
    shape = (4, 5) if paired else (5,)
    x, weight = torch.randn(*shape, 3, generator=torch.Generator().manual_seed(0)), torch.full((*shape, 1), 3.0)
    by_position = model.outputs(phi, (x, weight), paired=paired)
    assert torch.equal(by_position, model.outputs(phi, {"weight": weight, "x": x}, paired=paired))
    for i in range(4):
        model.phi.data = phi[i]
        torch.testing.assert_close(by_position[i], model(*((x[i], weight[i]) if paired else (x, weight))))
    model.merge()


@pytest.mark.parametrize("shape", [(3,), (2, 4), (1, 2, 3), (0, 3)])
def test_a_phi_of_another_shape_is_refused(shape):
    model = adapt(nn.Linear(3, 2), DynamicBias(dim=3))
    with pytest.raises(AdapterError, match=r"expected \(population, 3\)"):
        model.outputs(torch.zeros(shape), torch.ones(5, 3))


def test_paired_inputs_have_one_batch_for_each_vector():
    model = adapt(nn.Linear(3, 2), DynamicBias(dim=3))
    with pytest.raises(AdapterError, match=r"4 vectors are paired with inputs whose first axes are \[\(5,\)\]"):
        model.outputs(torch.zeros(4, 3), torch.ones(5, 6, 3), paired=True)


class Several(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        return self.layer(x), x


def test_several_outputs_pass_through_forward_but_not_through_a_population():
    model = adapt(Several(), DynamicBias(dim=2))
    assert isinstance(model(torch.ones(5, 3)), tuple)
    with pytest.raises(
        AdapterError,
        match=r"gave \(float32 \(5, 2\), float32 \(5, 3\)\), in which no tensor is recognised; expected one",
    ):
        model.outputs(members(model), torch.ones(5, 3))
