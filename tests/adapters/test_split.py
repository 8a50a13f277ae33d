import pytest
import torch
from torch import nn
from torch.nn import functional

from metricopt.adapters import ConditionalNorm, DynamicBias, FiLM, OutputAffine, adapt
from metricopt.adapters.graph.split import Cut
from metricopt.adapters.graph.trace import CutError
from metricopt_lab.networks import TabularMLP
from metricopt_lab.networks.resnet import CifarResNet


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def lived_in(net):
    """The net with statistics and gains that no untrained BatchNorm has."""
    draw = torch.Generator().manual_seed(1)
    for module in net.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.running_mean.normal_(generator=draw)
            module.running_var.uniform_(0.5, 2.0, generator=draw)
            module.weight.data.uniform_(0.5, 2.0, generator=draw)
            module.bias.data.normal_(generator=draw)
    return net


class PreActivation(nn.Module):
    """Norm before convolution, in-place activations, a skip that crosses, and a scale that nothing influences."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.norm1, self.conv1 = nn.BatchNorm2d(8), nn.Conv2d(8, 8, 3, padding=1)
        self.norm2, self.conv2 = nn.BatchNorm2d(8), nn.Conv2d(8, 8, 3, padding=1)
        self.scale = nn.Parameter(torch.full((1,), 0.5))
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        h = self.stem(x)
        h = h + self.conv1(functional.relu(self.norm1(h), inplace=True))
        h = h + self.scale.exp() * self.conv2(torch.relu(self.norm2(h)))
        return self.head(h.mean(dim=(2, 3)))


def transformer():
    torch.manual_seed(0)
    layer = [nn.TransformerEncoderLayer(8, 2, 16, batch_first=True) for _ in range(2)]
    return nn.Sequential(nn.Linear(8, 8), *layer, nn.Flatten(), nn.Linear(40, 3))


NETS = {
    "mlp": (lambda: TabularMLP(6), (6,)),
    "mlp of several outputs": (lambda: TabularMLP(6, 3), (6,)),
    "residual": (lambda: CifarResNet(blocks=1), (3, 8, 8)),
    "pre-activation": (PreActivation, (3, 8, 8)),
    "transformer": (transformer, (5, 8)),
    "one layer": (lambda: nn.Linear(6, 3), (6,)),
}
ADAPTERS = {
    "bias": DynamicBias(dim=3),
    "film": FiLM(dim=5),
    "norm": ConditionalNorm(dim=5),
    "outputs": OutputAffine(),
    "film twice": FiLM(dim=5) + FiLM(dim=4, strength=0.5) + OutputAffine(),
    "all": FiLM(dim=5) + DynamicBias(dim=3) + ConditionalNorm(dim=4) + OutputAffine(),
}
CASES = [
    pytest.param(make, shape, adapter, id=f"{net}-{name}")
    for net, (make, shape) in NETS.items()
    for name, adapter in ADAPTERS.items()
    if net != "one layer" or name in ("bias", "outputs")
]


@pytest.mark.parametrize(("make", "shape", "adapter"), CASES)
def test_the_two_parts_together_are_the_model_for_shared_and_for_paired_rows(make, shape, adapter):
    x = numbers(6, *shape)
    model = adapt(lived_in(make()), adapter, example=x)
    cut = Cut(model, x)
    phi = numbers(4, model.dim, seed=2)
    crossing = cut.before(x)
    kept = [tensor.clone() for tensor in crossing]
    torch.testing.assert_close(cut.outputs(phi, crossing), model.outputs(phi, x), rtol=1e-4, atol=1e-4)
    assert all(torch.equal(a, b) for a, b in zip(kept, crossing, strict=True))
    index = torch.randint(6, (4, 5), generator=torch.Generator().manual_seed(3))
    slopes = []
    for outputs, rows in ((model.outputs, x[index]), (cut.outputs, tuple(tensor[index] for tensor in crossing))):
        leaf = phi.clone().requires_grad_()
        outputs(leaf, rows, paired=True).square().sum().backward()
        slopes.append(leaf.grad)
    torch.testing.assert_close(*slopes, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("paired", [False, True])
def test_members_that_are_work_enough_are_computed_one_by_one_with_the_same_result(monkeypatch, paired):
    x = numbers(6, 3, 8, 8)
    model = adapt(lived_in(CifarResNet(blocks=1)), FiLM(dim=5, layers="stage3.*"), example=x)
    cut, phi = Cut(model, x), numbers(4, 5, seed=2)
    crossing = tuple(tensor.expand(4, *tensor.shape) if paired else tensor for tensor in cut.before(x))
    together = cut.outputs(phi, crossing, paired=paired)
    monkeypatch.setattr("metricopt.adapters.graph.split._HEAVY", 0)
    monkeypatch.setattr("metricopt.adapters.population.all_at_once", None)
    torch.testing.assert_close(cut.outputs(phi, crossing, paired=paired), together)


def test_the_first_modulated_layer_itself_is_computed_beforehand_and_the_skip_crosses_too():
    x = numbers(2, 3, 16, 16)
    net = CifarResNet(blocks=2)
    shapes = [
        sorted(tuple(tensor.shape[1:]) for tensor in Cut(adapt(net, FiLM(dim=4, layers=layers)), x).before(x))
        for layers in ("stage3.*", "stage3.1.*", "stage3.1.norm2")
    ]
    assert shapes == [[(64, 4, 4)] * 2] * 3


def test_work_saved_is_that_of_the_layers_before_the_cut():
    cut = Cut(adapt(TabularMLP(6), FiLM(dim=4)), numbers(2, 6))
    assert cut.saved == 6 * 100


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        h = self.layer(x)
        return h if h.sum() > 0 else -h


class Counting(nn.Module):
    """Passes the number of rows on."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        rows = x.size(0)
        return self.layer(x) / rows


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (Branching(), "torch.fx cannot trace it: symbolically traced variables cannot be used as inputs to control"),
        (Counting(), r"a value without one row an example \(int for 2 rows\) is needed behind the cut"),
        (
            nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2, track_running_stats=False)),
            "'1' normalises by the batch, so that rows influence each other",
        ),
    ],
)
def test_a_network_that_cannot_be_cut_says_why(net, reason):
    with pytest.raises(CutError, match=reason):
        Cut(adapt(net, DynamicBias(dim=2)), torch.ones(2, 3))
