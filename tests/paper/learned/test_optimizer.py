import copy
import io
import warnings

import pytest
import torch
from torch import Tensor
from torch.optim.lr_scheduler import CosineAnnealingLR, ExponentialLR

from metricopt.core.errors import FileFormatError, MetricOptWarning
from metricopt.core.seeding import stream
from metricopt.paper.learned.equation_s1_rule import EQUATION_S1, LOSS_ONLY, WITH_VALUE, MlpRule
from metricopt.paper.learned.optimizer import LearnedOptimizer
from metricopt.paper.learned.weights import LearnedWeights


def learned(features: tuple[str, ...] = EQUATION_S1, noise: float = 0.1) -> LearnedWeights:
    rule = MlpRule(features=features, lr=0.05)
    return LearnedWeights(rule, rule.initial(stream(0)) + noise * torch.randn(rule.size, generator=stream(1)))


def start(*shape: int) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.randn(shape, generator=stream(2)))


def loss_of(parameters: list[torch.nn.Parameter]) -> Tensor:
    return torch.stack([(each - 0.3).square().sum() for each in parameters]).sum()


def walk(optimizer: LearnedOptimizer, parameters: list[torch.nn.Parameter], steps: int) -> None:
    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = loss_of(parameters)
        loss.backward()
        return loss

    for step in range(steps):
        if step % 3 == 0:
            optimizer.observe(metric=0.5 / (step + 1))
        optimizer.step(closure)


def test_the_closure_is_called_once_and_its_loss_returned():
    phi, calls = start(4), []
    optimizer = LearnedOptimizer([phi], learned())

    def closure() -> Tensor:
        calls.append(torch.is_grad_enabled())
        loss = loss_of([phi])
        loss.backward()
        return loss

    with torch.no_grad():
        assert optimizer.step(closure) is not None
    assert calls == [True]


def test_untrained_weights_already_lower_a_loss():
    parameters = [start(3, 4), start(5)]
    before = loss_of(parameters).item()
    walk(LearnedOptimizer(parameters, learned(noise=0.0)), parameters, 20)
    assert loss_of(parameters).item() < 0.2 * before


def test_a_closure_and_an_observed_loss_are_the_same():
    one, other = start(4), start(4)
    walk(LearnedOptimizer([one], learned()), [one], 3)
    optimizer = LearnedOptimizer([other], learned())
    for step in range(3):
        optimizer.zero_grad()
        loss = loss_of([other])
        loss.backward()
        optimizer.observe(loss=loss, metric=0.5 if step == 0 else None)
        optimizer.step()
    assert torch.equal(one, other)


def test_members_of_a_population_walk_as_if_alone():
    rows = [start(4).detach(), 2 * start(4).detach()]
    together = torch.nn.Parameter(torch.stack(rows))
    optimizer = LearnedOptimizer([together], learned(), population=True)
    optimizer.observe(metric=torch.tensor([0.5, 0.3]))
    for _ in range(4):
        optimizer.zero_grad()
        losses = (together - 0.3).square().sum(1)
        losses.sum().backward()
        optimizer.observe(loss=losses)
        optimizer.step()
    for row, metric, found in zip(rows, (0.5, 0.3), together.detach(), strict=True):
        phi = torch.nn.Parameter(row)
        alone = LearnedOptimizer([phi], learned())
        alone.observe(metric=metric)
        _without_metric(alone, [phi], 4)
        torch.testing.assert_close(phi.detach(), found)


@pytest.mark.parametrize("features", [EQUATION_S1, LOSS_ONLY])
def test_it_resumes_to_the_bit_from_a_file(features):
    whole, half = [start(3, 4), start(5)], [start(3, 4), start(5)]
    walk(LearnedOptimizer(whole, learned(features)), whole, 3)
    optimizer = LearnedOptimizer(half, learned(features))
    walk(optimizer, half, 3)
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    again = LearnedOptimizer(half, learned(features))
    again.load_state_dict(torch.load(file, weights_only=True))
    reference = LearnedOptimizer(whole, learned(features))
    reference.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for each, parameters in ((again, half), (reference, whole)):
        _without_metric(each, parameters, 4)
    assert all(torch.equal(a, b) for a, b in zip(whole, half, strict=True))
    straight = [start(3, 4), start(5)]
    unbroken = LearnedOptimizer(straight, learned(features))
    walk(unbroken, straight, 3)
    _without_metric(unbroken, straight, 4)
    assert all(torch.equal(a, b) for a, b in zip(straight, half, strict=True))


def _without_metric(optimizer: LearnedOptimizer, parameters: list[torch.nn.Parameter], steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(parameters)
        loss.backward()
        optimizer.observe(loss=loss)
        optimizer.step()


def test_schedulers_and_groups_change_the_step():
    one, other = start(4), start(4)
    groups = [{"params": [one]}, {"params": [other], "lr": 0.0}]
    optimizer = LearnedOptimizer(groups, learned())
    walk(optimizer, [one, other], 1)
    assert torch.equal(other, start(4)) and not torch.equal(one, start(4))
    scheduler = ExponentialLR(optimizer, 0.5)
    walk(optimizer, [one, other], 1)
    scheduler.step()
    assert [group["lr"] for group in optimizer.param_groups] == [0.025, 0.0]
    CosineAnnealingLR(optimizer, 3)


def test_a_group_may_be_added_later():
    one, other = start(4), start(2)
    optimizer = LearnedOptimizer([one], learned())
    walk(optimizer, [one], 2)
    optimizer.add_param_group({"params": [other]})
    walk(optimizer, [one, other], 2)
    assert not torch.equal(other, start(2))


def test_a_copy_goes_on_alike():
    phi = start(4)
    optimizer = LearnedOptimizer([phi], learned())
    walk(optimizer, [phi], 2)
    again = copy.deepcopy(optimizer)
    same = again.param_groups[0]["params"][0]
    _without_metric(optimizer, [phi], 2)
    _without_metric(again, [same], 2)
    assert torch.equal(phi, same)


def test_parameters_without_a_gradient_stay():
    one, other = start(4), start(4)
    optimizer = LearnedOptimizer([one, other], learned())
    walk(optimizer, [one], 2)
    assert torch.equal(other, start(4))


def test_a_loss_that_is_no_number_is_said_once_and_moves_nothing():
    phi = start(4)
    optimizer = LearnedOptimizer([phi], learned())
    walk(optimizer, [phi], 2)
    before, state = phi.detach().clone(), copy.deepcopy(optimizer.state_dict())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for loss in (torch.nan, torch.inf):
            optimizer.zero_grad()
            loss_of([phi]).backward()
            optimizer.observe(loss=loss)
            optimizer.step()
    assert [each.category for each in caught] == [MetricOptWarning]
    assert torch.equal(phi, before)
    after = optimizer.state_dict()["state"][0]
    assert all(torch.equal(after[name], tensor) for name, tensor in state["state"][0].items())


def test_what_it_is_not_told_is_named():
    phi = start(4)
    optimizer = LearnedOptimizer([phi], learned())
    loss_of([phi]).backward()
    with pytest.raises(ValueError, match="looks at the loss and was told none"):
        optimizer.step()
    with pytest.raises(ValueError, match="value function; pass it as value="):
        LearnedOptimizer([phi], learned(WITH_VALUE))
    with pytest.raises(ValueError, match="lr is -1"):
        LearnedOptimizer([phi], learned(), lr=-1)


def test_a_rule_that_sees_no_loss_needs_none():
    phi = start(4)
    optimizer = LearnedOptimizer([phi], learned(LOSS_ONLY))
    loss_of([phi]).backward()
    optimizer.step()
    assert not torch.equal(phi, start(4))


def test_a_state_of_another_feature_set_is_refused():
    phi = start(4)
    other = LearnedWeights(MlpRule(decays=(0.5, 0.9)), MlpRule(decays=(0.5, 0.9)).initial(stream(0)))
    with pytest.raises(FileFormatError, match="use the parameters and the weights it was saved with"):
        LearnedOptimizer([phi], learned()).load_state_dict(LearnedOptimizer([phi], other).state_dict())
    with pytest.raises(FileFormatError, match="saved with"):
        LearnedOptimizer([phi], learned()).load_state_dict(torch.optim.Adam([phi]).state_dict())
