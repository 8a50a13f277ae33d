import pytest
import torch
from torch import nn

from metricopt.adapters import DynamicBias, FiLM, OutputAffine, adapt
from metricopt.core.errors import AdapterError, MergeWarning
from metricopt_lab.networks import TabularMLP


class Pooled(nn.Module):
    """Class maps of a convolution, averaged over the image."""

    def __init__(self) -> None:
        super().__init__()
        self.maps = nn.Conv2d(3, 5, 1, bias=False)

    def forward(self, x):
        return self.maps(x).mean((2, 3))


def test_each_output_has_a_scale_and_a_shift():
    net = nn.Linear(2, 3)
    model = adapt(net, OutputAffine())
    model.phi.data = torch.tensor([0.5, 0.0, -1.0, 10.0, 20.0, 30.0])
    z = net(torch.ones(4, 2))
    torch.testing.assert_close(model(torch.ones(4, 2)), z * torch.tensor([1.5, 1, 0]) + torch.tensor([10.0, 20, 30]))


@pytest.mark.parametrize(("scale", "shift", "dim"), [(True, True, 6), (True, False, 3), (False, True, 3)])
def test_scales_and_shifts_can_be_had_alone(scale, shift, dim):
    net = nn.Linear(2, 3)
    model = adapt(net, OutputAffine(scale=scale, shift=shift))
    assert model.dim == dim
    model.phi.data.fill_(1)
    expected = net(torch.ones(4, 2)) * (1 + scale) + float(shift)
    torch.testing.assert_close(model(torch.ones(4, 2)), expected)
    torch.testing.assert_close(model.merge()(torch.ones(4, 2)), expected)


def test_neither_scale_nor_shift_is_refused():
    with pytest.raises(AdapterError, match="neither"):
        OutputAffine(scale=False, shift=False)


@pytest.mark.parametrize("example", [None, torch.zeros(4, 6)], ids=["guessed", "probed"])
def test_a_single_logit_has_two_numbers_whatever_its_shape(example):
    for net in (TabularMLP(6), nn.Linear(6, 1)):
        model = adapt(net, OutputAffine(), example=example)
        assert model.dim == 2 and model.shift_coordinates == slice(1, 2)
        model.phi.data = torch.tensor([1.0, -3.0])
        x = torch.randn(7, 6, generator=torch.Generator().manual_seed(0))
        assert model(x).shape == net(x).shape
        torch.testing.assert_close(model(x), 2 * net(x) - 3)
        torch.testing.assert_close(model.merge()(x), model(x))


def test_the_shift_coordinates_of_a_sum_are_those_added_to_the_outputs():
    net = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    model = adapt(net, DynamicBias(dim=5) + OutputAffine() + FiLM(dim=7))
    x = torch.ones(6, 2)
    before = model(x)
    model.phi.data[model.shift_coordinates] = torch.tensor([1.0, 2.0, 3.0])
    torch.testing.assert_close(model(x), before + torch.tensor([1.0, 2.0, 3.0]))
    assert model.dim == 5 + 6 + 7
    assert adapt(net, FiLM() + OutputAffine(shift=False)).shift_coordinates is None


@pytest.mark.parametrize("example", [None, torch.zeros(1, 3, 4, 4)], ids=["guessed", "probed"])
def test_maps_and_averaged_maps_are_modulated_by_class(example):
    x = torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    for net in (nn.Conv2d(3, 5, 1), Pooled()):
        model = adapt(net, OutputAffine(), example=example)
        assert model.dim == 10
        model.phi.data = torch.arange(10.0)
        by_class = (1, 5) if net(x).ndim == 2 else (1, 5, 1, 1)
        torch.testing.assert_close(
            model(x), net(x) * (1 + torch.arange(5.0)).view(by_class) + torch.arange(5.0, 10).view(by_class)
        )
        torch.testing.assert_close(model.merge(x)(x), model(x))


def test_the_affine_map_is_merged_behind_whatever_modulates_the_last_layer():
    net = nn.Sequential(nn.Linear(2, 3))
    model = adapt(net, OutputAffine() + FiLM(dim=4, layers="0"))
    model.phi.data.fill_(1)
    torch.testing.assert_close(model.merge()(torch.ones(1, 2)), model(torch.ones(1, 2)))


def test_merging_below_a_softmax_is_noticed_on_an_example_unless_it_changes_nothing():
    net = nn.Sequential(nn.Linear(2, 3), nn.Softmax(dim=1))
    model = adapt(net, OutputAffine(), example=torch.ones(4, 2))
    torch.testing.assert_close(model.merge()(torch.ones(1, 2)), net(torch.ones(1, 2)))
    model.phi.data.fill_(1)
    with pytest.warns(MergeWarning, match=r"computes it: .* differ from the adapted one's by up to"):
        merged = model.merge()
    assert torch.equal(merged(torch.ones(1, 2)), model(torch.ones(1, 2)))


class TwoHeads(nn.Module):
    """A second head, defined last, that the output does not come from."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(2, 3)
        self.auxiliary = nn.Linear(2, 4)

    def forward(self, x):
        return self.head(x)


def test_a_wrong_guess_of_the_last_layer_is_said_and_can_be_put_right():
    with pytest.raises(AdapterError, match=r"output \(5, 3\) has 3 units on axis -1, but OutputAffine was made for 4"):
        adapt(TwoHeads(), OutputAffine())(torch.ones(5, 2))
    for model in (
        adapt(TwoHeads(), OutputAffine(layer="head")),
        adapt(TwoHeads(), OutputAffine(), example=torch.ones(1, 2)),
    ):
        model.phi.data.fill_(1)
        torch.testing.assert_close(model.merge()(torch.ones(5, 2)), model(torch.ones(5, 2)))


class Distances(nn.Module):
    """Outputs no layer produces; parameters of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.centres = nn.Parameter(torch.zeros(4, 2))

    def forward(self, x):
        return torch.cdist(x, self.centres)


def test_outputs_that_no_layer_produces_need_an_example_and_are_merged_into_a_module_that_computes_them():
    with pytest.raises(AdapterError, match=r"number of output units is unknown.*example="):
        adapt(Distances(), OutputAffine())
    model = adapt(Distances(), OutputAffine(), example=torch.ones(5, 2))
    assert model.dim == 8
    model.phi.data.fill_(0.5)
    with pytest.warns(MergeWarning, match="cannot be merged into one"):
        merged = model.merge()
    assert torch.equal(merged(torch.ones(5, 2)), model(torch.ones(5, 2)))


class Several(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 3)

    def forward(self, x):
        return self.layer(x), x


class Boxes(Several):
    def forward(self, x):
        return [{"boxes": self.layer(row), "scores": row} for row in x]


def test_of_several_outputs_the_first_is_modulated_and_the_others_pass_through():
    model = adapt(Several(), OutputAffine(), example=torch.ones(5, 2))
    plain, same = model.net(torch.ones(5, 2))
    with torch.no_grad():
        model.phi[3:] = torch.tensor([1.0, 2.0, 3.0])
        shifted, other = model(torch.ones(5, 2))
    torch.testing.assert_close(shifted, plain + torch.tensor([1.0, 2.0, 3.0]))
    assert torch.equal(other, same)


def test_outputs_without_a_tensor_that_could_be_modulated_are_refused():
    with pytest.raises(
        AdapterError,
        match=r"gave \(float32 \(5, 3\), float32 \(5, 2\)\), in which no tensor is recognised; expected one",
    ):
        adapt(Several(), OutputAffine())(torch.ones(5, 2))
    with pytest.raises(AdapterError, match=r"output of the example: .*list"):
        adapt(Boxes(), OutputAffine(), example=torch.ones(5, 2))
