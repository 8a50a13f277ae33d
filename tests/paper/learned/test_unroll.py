from functools import partial

import pytest
import torch
from torch import Tensor

from metricopt.core.seeding import stream
from metricopt.paper.learned.equation_s1_rule import EQUATION_S1, WITH_VALUE, MlpRule
from metricopt.paper.learned.equation_s2_objective import optimizer_objective
from metricopt.paper.learned.optimizer import LearnedOptimizer
from metricopt.paper.learned.signals import Signals
from metricopt.paper.learned.unroll import Unroll, batch_of
from metricopt.paper.learned.weights import LearnedWeights
from metricopt.task.quadratic import QuadraticTask

TASK, STEPS, EVERY = QuadraticTask(dim=3), 7, 3


def value(phi: Tensor) -> Tensor:
    return 1 - (-(phi - TASK.optimum.to(phi)).square().sum(-1) / 2).exp()


def objective(losses: Tensor, phi: Tensor) -> Tensor:
    return optimizer_objective(losses, value(phi))


class Setting:
    """Two tasks of four members, in double precision."""

    def __init__(self, features: tuple[str, ...] = EQUATION_S1, **options: object) -> None:
        self.rule = MlpRule(features=features, hidden=(6,))
        noise = 0.1 * torch.randn(4, self.rule.size, generator=stream(1), dtype=torch.float64)
        self.weights = self.rule.initial(stream(0)).double() + noise
        drawn = TASK.batches(2, stream(2))
        self.batches = [next(drawn).double() for _ in range(STEPS + 1)]
        self.start = torch.randn(4, 3, generator=stream(3), dtype=torch.float64)
        self.unroll = Unroll(TASK, self.rule, value, lr=0.1, metric_every=EVERY, **options)

    def objectives(self, weights: Tensor) -> Tensor:
        path = self.unroll.forward(weights, self.start, self.batches)
        return objective(path.loss, path.phi)

    def gradients(self) -> Tensor:
        path = self.unroll.forward(self.weights, self.start, self.batches)
        return self.unroll.gradients(self.weights, path, self.batches, objective)[1]


def whole_graph(setting: Setting, *, detach: bool = False, cut: int | None = None) -> Tensor:
    """Derivative of the same objective by one graph of all steps, written down a second time."""
    weights = setting.weights.clone().requires_grad_()
    phi, state, metric = setting.start.clone().requires_grad_(), setting.rule.start(setting.start), None
    losses, path = [], [phi]
    for step, batch in enumerate(setting.batches[:-1]):
        loss = TASK.loss(phi, batch.repeat(2, 1))
        gradient = torch.autograd.grad(loss.sum(), phi, create_graph=True)[0]
        steep = torch.autograd.grad(value(phi).sum(), phi, create_graph=True)[0]
        metric = value(phi) if step % EVERY == 0 else metric
        seen = Signals(phi, gradient.detach() if detach else gradient, loss, metric, steep)
        change, state = setting.rule.update(weights, seen, state)
        losses.append(loss)
        phi = phi + 0.1 * change
        path.append(phi)
        if cut and (step + 1) % cut == 0:
            phi, metric = phi.detach().requires_grad_(), metric.detach()
            state = {name: tensor.detach() for name, tensor in state.items()}
    losses.append(TASK.loss(phi, setting.batches[-1].repeat(2, 1)))
    return torch.autograd.grad(objective(torch.stack(losses, 1), torch.stack(path, 1)).sum(), weights)[0]


@pytest.mark.parametrize("features", [EQUATION_S1, WITH_VALUE])
def test_the_derivative_is_that_of_finite_differences(features):
    setting, step = Setting(features), 1e-5
    found = setting.gradients()
    for place in range(0, setting.rule.size, 5):
        shift = torch.zeros_like(setting.weights)
        shift[:, place] = step
        slope = (setting.objectives(setting.weights + shift) - setting.objectives(setting.weights - shift)) / (2 * step)
        torch.testing.assert_close(found[:, place], slope, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("features", [EQUATION_S1, WITH_VALUE])
def test_the_derivative_is_that_of_one_graph_of_all_steps(features):
    setting = Setting(features)
    torch.testing.assert_close(setting.gradients(), whole_graph(setting))


def test_without_second_order_the_loss_gradient_counts_as_given():
    setting = Setting(second_order=False)
    torch.testing.assert_close(setting.gradients(), whole_graph(setting, detach=True))
    assert not torch.allclose(setting.gradients(), Setting().gradients())


@pytest.mark.parametrize("cut", [3, STEPS])
def test_a_truncated_derivative_forgets_what_came_after_the_cut(cut):
    setting = Setting(truncation=cut)
    torch.testing.assert_close(setting.gradients(), whole_graph(setting, cut=cut))
    assert not torch.allclose(setting.gradients(), Setting().gradients())


def test_the_optimizer_walks_the_unrolled_path_to_the_bit():
    setting = Setting(WITH_VALUE)
    path = setting.unroll.forward(setting.weights[:1].expand(2, -1), setting.start[:2], setting.batches)
    phi = torch.nn.Parameter(setting.start[:2].clone())
    learned = LearnedWeights(setting.rule, setting.weights[0])
    optimizer = LearnedOptimizer([phi], learned, lr=0.1, population=True, value=value)
    for step, batch in enumerate(setting.batches[:-1]):
        optimizer.zero_grad()
        loss = TASK.loss(phi, batch)
        loss.sum().backward()
        metric = value(phi.detach()) if step % EVERY == 0 else None
        optimizer.observe(loss=loss, metric=metric)
        optimizer.step()
        assert torch.equal(phi.detach(), path.phi[:, step + 1])


def test_members_do_not_influence_each_other():
    setting = Setting()
    broken = setting.start.clone()
    broken[3] = torch.nan
    path = setting.unroll.forward(setting.weights, broken, setting.batches)
    whole = setting.unroll.forward(setting.weights, setting.start, setting.batches)
    assert path.finite.tolist() == [True, True, True, False]
    assert torch.equal(path.phi[:3], whole.phi[:3])
    gradients = partial(setting.unroll.gradients, setting.weights, batches=setting.batches, objective=objective)
    torch.testing.assert_close(gradients(path=path)[1][:3], gradients(path=whole)[1][:3])


def test_a_batch_of_lists_is_one_of_members():
    assert batch_of(["a", "b"], torch.zeros(4, 1)) == ["a", "b", "a", "b"]
