import math

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from torch import nn
from torch.func import grad

from metricopt.adapters import FiLM, OutputAffine, adapt
from metricopt.core.errors import DataError
from metricopt.data.dataset import Examples
from metricopt.losses import LargeMarginSoftmax, annealed, cross_entropy, large_margin_softmax, margin_cosine
from metricopt.metrics import mcr
from metricopt.task.supervised import SupervisedTask
from metricopt_lab.problems.pretrain import pretrain


def psi(theta, m):
    k = min(math.floor(theta * m / math.pi), m - 1)
    return (-1) ** k * math.cos(m * theta) - 2 * k


def paper(features, weight, bias, targets, *, m, softening=0.0):
    """Liu et al. 2016, equations 4 to 6 and the lambda of section 5.1, by plain loops."""
    losses = []
    for x, y in zip(features, targets, strict=True):
        logits = weight @ x + bias
        size = np.linalg.norm(weight[y]) * np.linalg.norm(x)
        theta = math.acos(np.clip(weight[y] @ x / size, -1, 1))
        logits[y] = (softening * size * math.cos(theta) + size * psi(theta, m)) / (1 + softening) + bias[y]
        losses.append(logsumexp(logits) - logits[y])
    return np.mean(losses)


def case(*, units=4, features=6, n=20, bias=True, seed=0):
    generator = torch.Generator().manual_seed(seed)
    layer = nn.Linear(features, units, bias=bias).double()
    for parameter in layer.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    x = torch.randn(n, features, generator=generator, dtype=torch.float64)
    return layer, x, torch.randint(max(units, 2), (n,), generator=generator)


def arrays(layer):
    return layer.weight.detach().numpy(), np.zeros(
        layer.out_features
    ) if layer.bias is None else layer.bias.detach().numpy()


@pytest.mark.parametrize("m", [1, 2, 3, 4, 5])
def test_psi_is_the_papers_and_falls_in_one_smooth_line_below_the_cosine(m):
    theta = torch.linspace(0, math.pi, 301, dtype=torch.float64)
    values = margin_cosine(theta.cos(), m)
    np.testing.assert_allclose(values, [psi(angle, m) for angle in theta.tolist()], atol=1e-9)
    assert bool((values.diff() < 0).all()) and float(values.diff().abs().max()) < 0.05 * m
    assert bool((values <= theta.cos() + 1e-12).all())
    assert (float(values[0]), float(values[-1])) == pytest.approx((1.0, 1.0 - 2 * m))


@pytest.mark.parametrize("softening", [0.0, 3.0])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_a_watched_layer_is_trained_with_the_papers_loss(m, bias, softening):
    layer, x, targets = case(bias=bias)
    loss = LargeMarginSoftmax(layer, margin=m, softening=softening)
    with loss.watching():
        value = loss(layer(x), targets).item()
    expected = paper(x.numpy(), *arrays(layer), targets.numpy(), m=m, softening=softening)
    assert value == pytest.approx(expected, abs=1e-9)


def test_its_gradients_in_features_weights_and_bias_are_those_of_finite_differences():
    layer, x, targets = case(n=6)
    loss = LargeMarginSoftmax(layer, margin=3)

    with loss.watching():
        assert torch.autograd.gradcheck(
            lambda *_: loss(layer(x), targets), (x.requires_grad_(), layer.weight, layer.bias)
        )


@pytest.mark.parametrize("units", [1, 2, 4])
@pytest.mark.parametrize("m", [2, 4])
def test_on_plain_logits_it_is_the_papers_loss_of_what_the_softmax_sees_of_features_and_weights(units, m):
    layer, x, targets = case(units=units)
    weight, bias = arrays(layer)
    if units == 1:
        weight, bias = np.vstack([-weight / 2, weight / 2]), np.array([-bias[0] / 2, bias[0] / 2])
    centred = weight - weight.mean(0)
    seen = x.numpy() @ np.linalg.pinv(centred) @ centred  # projection on the span of differences of weights
    expected = paper(seen, centred, bias, targets.numpy(), m=m)
    loss = LargeMarginSoftmax(layer, margin=m)
    outputs = layer(x).detach()
    assert float(loss(outputs, targets)) == pytest.approx(expected, abs=1e-9)
    if units == 1:
        assert float(loss(outputs[:, 0], targets)) == pytest.approx(expected, abs=1e-9)


def test_features_that_the_softmax_sees_whole_cost_the_same_watched_or_not():
    layer, _, targets = case()
    layer.weight.data -= layer.weight.data.mean(0)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(20, 4, generator=generator, dtype=torch.float64) @ layer.weight.data
    loss = LargeMarginSoftmax(layer, margin=3)
    plain = loss(layer(x).detach(), targets)
    with loss.watching():
        torch.testing.assert_close(loss(layer(x), targets).detach(), plain)


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_logits_alone_are_features_of_a_last_layer_that_takes_off_their_mean(m):
    outputs = torch.randn(15, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    targets = torch.arange(15) % 4
    centring = np.eye(4) - 1 / 4
    expected = paper(outputs.numpy() @ centring, centring, np.zeros(4), targets.numpy(), m=m)
    assert float(large_margin_softmax(outputs, targets, margin=m)) == pytest.approx(expected, abs=1e-9)


def test_with_margin_one_or_endless_softening_it_is_cross_entropy_and_it_grows_with_the_margin():
    layer, x, targets = case()
    outputs = layer(x).detach()
    plain = float(cross_entropy(outputs, targets))
    for loss in (
        lambda m, s=0.0: LargeMarginSoftmax(layer, margin=m, softening=s)(outputs, targets),
        lambda m, s=0.0: large_margin_softmax(outputs, targets, margin=m, softening=s),
    ):
        values = [float(loss(m)) for m in (1, 2, 3, 4)]
        assert values[0] == pytest.approx(plain, abs=1e-9) and float(loss(4, 1e12)) == pytest.approx(plain, abs=1e-6)
        assert values == sorted(values) and values[3] > values[0] + 1


def test_a_number_added_to_all_logits_changes_nothing():
    layer, x, targets = case()
    outputs = layer(x).detach()
    for loss in (LargeMarginSoftmax(layer, margin=3), large_margin_softmax):
        torch.testing.assert_close(loss(outputs + 5, targets), loss(outputs, targets))


@pytest.mark.parametrize("units", [1, 3])
def test_features_of_zero_and_logits_that_no_features_give_have_finite_gradients(units):
    layer, _, targets = case(units=units, features=1, bias=False)
    loss = LargeMarginSoftmax(layer, margin=4)
    shifted = torch.linspace(-2, 2, 20 * units, dtype=torch.float64).reshape(20, units)
    for outputs in (torch.zeros(20, units, dtype=torch.float64), shifted):
        for each in (loss, large_margin_softmax):
            assert bool(grad(each)(outputs, targets).isfinite().all())


def test_the_layer_is_watched_in_training_mode_and_within_the_context_only():
    layer, x, _ = case()
    loss = LargeMarginSoftmax(layer)
    with loss.watching():
        watched = layer(x)
        assert layer.eval()(x).shape == (20, 4)
        layer.train()
    torch.testing.assert_close(watched[:, 4], x.norm(dim=1))
    assert torch.equal(watched[:, :4], layer(x)) and layer(x).shape == (20, 4)


def problem():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(300, 5, generator=generator)
    y = (x @ torch.randn(5, 3, generator=generator) + 0.5 * torch.randn(300, 3, generator=generator)).argmax(1)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        head = nn.Linear(16, 3)
        net = nn.Sequential(nn.Linear(5, 16), nn.BatchNorm1d(16), nn.ReLU(), head)
    return net, head, Examples(x, y)


def test_pre_training_with_a_growing_margin_classifies_and_leaves_a_plain_network():
    net, head, data = problem()
    loss = LargeMarginSoftmax(head, margin=4, softening=annealed(0))

    def lower(epoch, _mean):
        loss.softening = annealed(epoch, rate=0.01, power=60)

    with loss.watching():
        pretrain(net, data, loss=loss, epochs=20, batch_size=50, progress=lower)
    assert loss.softening < 0.1
    outputs = net(data.inputs)
    assert outputs.shape == (300, 3) and (outputs.argmax(1) == data.targets).float().mean() > 0.85


@pytest.mark.parametrize("population", [1, 4])
def test_a_task_finetunes_phi_with_it_while_the_metric_sees_plain_logits(population):
    net, head, data = problem()
    loss = LargeMarginSoftmax(head, margin=3)
    model = adapt(net, FiLM(dim=6) + OutputAffine())
    task = SupervisedTask(model, loss=loss, metric=mcr(), train=data, search=data, batch_size=100)
    phi = 0.1 * torch.randn(population, task.dim, generator=torch.Generator().manual_seed(0))
    phi.requires_grad_()
    batch = next(task.batches(population, torch.Generator().manual_seed(1)))
    values = task.loss(phi, batch)
    values.sum().backward()
    assert phi.grad is not None and bool((phi.grad != 0).any(1).all())
    after = task.loss((phi - 0.01 * phi.grad).detach(), batch)
    assert values.shape == (population,) and bool((after < values).all())
    outputs = model.outputs(phi.detach(), data.inputs)
    wrong = (outputs.argmax(2) != data.targets).double().mean(1)
    torch.testing.assert_close(task.costs(phi.detach()), wrong)


def test_annealing_falls_to_its_least_value():
    values = [annealed(step, least=5.0) for step in (0, 1000, 10_000, 10**6)]
    assert values[0] == 1000.0 and values == sorted(values, reverse=True) and values[-1] == 5.0


def test_wrong_margins_and_layers_are_refused():
    layer, x, targets = case()
    with pytest.raises(DataError, match="margin is 0"):
        large_margin_softmax(layer(x), targets, margin=0)
    with pytest.raises(DataError, match="3 columns, the layer 4 units"):
        LargeMarginSoftmax(layer)(torch.zeros(20, 3), targets)
