"""The user's own network acts with phi for as long as a metric looks at it."""

import pytest
import torch
from torch import nn

from metricopt.adapters import FiLM, LastLayer, OutputAffine, adapt
from metricopt.core.errors import AdapterError
from metricopt.metrics import Metric

X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))


class Net(nn.Module):
    """A network with methods and attributes of its own."""

    def __init__(self, *, end: nn.Module | None = None) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU())
        self.head = nn.Linear(8, 3)
        self.end = nn.Identity() if end is None else end
        self.threshold = 0.25

    def forward(self, x):
        return self.end(self.head(self.body(x)))

    def by_call(self, x):
        return self(x)

    def by_forward(self, x):
        return self.forward(x)

    def by_layers(self, x):
        return self.end(self.head(self.body(x)))

    def generate(self, x, steps=3):
        for _ in range(steps):
            x = x + self(x)[:, :1]
        return x


class Twice(Net):
    """One that calls itself."""

    def forward(self, x, again=True):
        return self(x, again=False) + 1 if again else super().forward(x)


SPECS = {
    "layers": FiLM(dim=5),
    "output": OutputAffine(),
    "both": FiLM(dim=5) + OutputAffine(),
    "order": OutputAffine() + LastLayer(),
}


def adapted(spec, *, example=True, **settings):
    torch.manual_seed(0)
    model = adapt(Net(**settings), SPECS[spec], example=X if example else None)
    return model, torch.randn(model.dim, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("example", [True, False])
def test_the_network_computes_what_the_model_computes_however_it_is_asked(spec, example):
    model, phi = adapted(spec, example=example)
    expected, original = model.output(phi, X), model.net(X)
    assert not torch.allclose(expected, original)
    ways = ["by_call", "by_forward"] + (["by_layers"] if example or spec == "layers" else [])
    with model.net_at(phi) as net:
        assert isinstance(net, Net) and net.threshold == 0.25
        for found in (net(X), *(getattr(net, way)(X) for way in ways)):
            assert torch.equal(found, expected)
    assert torch.equal(model.net(X), original)


@pytest.mark.parametrize("end", [nn.Softmax(-1), nn.Tanh()])
def test_where_something_follows_the_last_layer_the_whole_output_is_changed_as_the_model_changes_it(end):
    model, phi = adapted("both", end=end)
    expected = model.output(phi, X)
    with model.net_at(phi) as net:
        assert torch.equal(net(X), expected) and torch.equal(net.by_forward(X), expected)


def test_a_loop_that_generates_acts_with_phi_at_every_step():
    model, phi = adapted("both")
    x = X
    for _ in range(3):
        x = x + model.output(phi, x)[:, :1]
    with model.net_at(phi) as net:
        assert torch.equal(net.generate(X), x)


def test_a_network_that_calls_itself_is_changed_once():
    model = adapt(Twice(end=nn.Tanh()), OutputAffine(scale=False))
    with model.net_at(torch.ones(3)) as net:
        inside = net(X)
    torch.testing.assert_close(inside, model.net(X) + 1)


@pytest.mark.parametrize("example", [True, False])
def test_nothing_of_the_network_is_changed_afterwards_even_if_the_metric_fails(example):
    model, phi = adapted("both", example=example)
    before = {name: tensor.clone() for name, tensor in model.net.state_dict().items()}
    kept = set(vars(model.net))
    with pytest.raises(ZeroDivisionError), model.net_at(phi):
        raise ZeroDivisionError
    assert set(vars(model.net)) == kept
    assert all(not module._forward_hooks for module in model.net.modules())
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.net.state_dict().items())


def test_without_a_phi_it_acts_at_the_models_own():
    model, phi = adapted("both")
    model.phi.data.copy_(phi)
    expected = model(X)
    with model.net_at() as net:
        assert torch.equal(net(X), expected) and not net(X).requires_grad
    assert model.phi.requires_grad


def test_the_model_is_not_to_be_called_where_phi_would_act_twice():
    model, phi = adapted("both")
    with model.net_at(phi), pytest.raises(AdapterError, match="phi would act twice: call the network given"):
        model(X)
    model(X)


def test_a_network_that_is_one_layer_is_modulated_before_its_output_is():
    torch.manual_seed(0)
    model = adapt(nn.Linear(4, 3), OutputAffine() + LastLayer())
    phi = torch.randn(model.dim)
    expected = model.output(phi, X)
    with model.net_at(phi) as net:
        assert torch.equal(net(X), expected)


def test_a_metric_of_the_model_is_handed_the_users_own_class_with_phi_applied():
    model, _ = adapted("both")
    seen = []

    def look(net, x, y):
        seen.append((type(net), net.threshold, float(net.by_layers(x).sum()), float(net.generate(x).sum())))
        return 0.5

    metric = Metric(look, on="model", goal="max")
    for size in range(4):
        model.phi.data.fill_(0.1 * size)
        metric.value_of_model(model, X, torch.zeros(6))
    assert {(kind, threshold) for kind, threshold, *_ in seen} == {(Net, 0.25)}
    assert len({by_layers for *_, by_layers, _ in seen}) == len({generated for *_, generated in seen}) == 4


def test_statistics_of_a_norm_that_the_metric_switched_to_train_mode_are_put_back():
    net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    before = net[1].running_mean.clone()

    def unsure(net, x, y):
        net.train()
        return float(net(x).std() > 0)

    metric = Metric(unsure, on="model", goal="max")
    metric.value_of_model(adapt(net, FiLM(dim=2)), X, torch.zeros(6))
    assert torch.equal(net[1].running_mean, before) and int(net[1].num_batches_tracked) == 0
    assert not net.training
