import copy
import io
import warnings
from collections.abc import Callable

import pytest
import torch
from torch.optim import SGD, Adam, Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, ExponentialLR

from metricopt.core.errors import FileFormatError, MetricOptWarning, UnknownNameError
from metricopt.paper.equation_4_direction import exact_direction
from metricopt.paper.guided import MetricGuided

TARGET = torch.tensor([0.5, -0.5, 0.25, 0.0])
BASES: dict[str, Callable[[list[torch.nn.Parameter]], Optimizer]] = {
    "sgd": lambda parameters: SGD(parameters, lr=0.1),
    "momentum": lambda parameters: SGD(parameters, lr=0.03, momentum=0.9),
    "adam": lambda parameters: Adam(parameters, lr=0.05),
}


def value(points: torch.Tensor) -> torch.Tensor:
    """A cost whose optimum is known."""
    return (points - TARGET).square().sum(1)


def start(population: int | None = None) -> torch.nn.Parameter:
    shape = (4,) if population is None else (population, 4)
    return torch.nn.Parameter(torch.randn(shape, generator=torch.Generator().manual_seed(0)))


def loss(phi: torch.Tensor) -> torch.Tensor:
    """Mismatched to the cost: it has its minimum elsewhere and does not see the last coordinate."""
    return (phi[..., :3] - 0.3).square().sum()


def walk(optimizer: Optimizer, phi: torch.nn.Parameter, steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        loss(phi).backward()
        optimizer.step()


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("estimator", ["es", "exact"])
@pytest.mark.parametrize("population", [None, 3])
def test_replacing_the_gradient_finds_the_optimum_of_the_value_function(base, estimator, population):
    phi = start(population)
    optimizer = MetricGuided(BASES[base]([phi]), value, combine="replace", estimator=estimator, pairs=3)
    scheduler = CosineAnnealingLR(optimizer, 300)
    for _ in range(300):
        walk(optimizer, phi, 1)
        scheduler.step()
    torch.testing.assert_close(phi.detach(), TARGET.expand_as(phi), atol=0.02, rtol=0)


@pytest.mark.parametrize("base", BASES)
def test_adding_the_exact_direction_finds_the_minimum_of_the_weighted_sum(base):
    phi, weight = start(), 4.0
    optimizer = MetricGuided(BASES[base]([phi]), value, estimator="exact", weight=weight, normalise=False, memory=1)
    walk(optimizer, phi, 600)
    # Where the loss gradient g and 2 Sigma grad f cancel: both lie along g, where 2 Sigma = 1/d + 1/k.
    loss_gradient = 2 * torch.cat([phi[:3] - 0.3, torch.zeros(1)])
    balance = loss_gradient + weight * exact_direction(value, phi[None], loss_gradient[None, None])[0]
    assert balance.norm() < 1e-2
    assert (phi[3] - TARGET[3]).abs() < 1e-2  # the loss has no say there


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("estimator", ["es", "exact"])
def test_adding_a_normalised_direction_ends_nearer_the_optimum_than_the_loss_alone(base, estimator):
    guided, plain = start(), start()
    optimizer = MetricGuided(BASES[base]([guided]), value, estimator=estimator)
    walk(optimizer, guided, 300)
    walk(BASES[base]([plain]), plain, 300)
    assert value(guided[None]) < 0.5 * value(plain[None])


def test_metric_only_search_needs_no_loss():
    phi = start()
    optimizer = MetricGuided(SGD([phi], lr=0.05), value, combine="replace")
    for _ in range(200):
        optimizer.step()
    assert phi.grad is None
    assert value(phi[None]) < 0.05


@pytest.mark.parametrize("dim", [4, 64, 256])
def test_a_normalised_step_is_as_long_as_the_learning_rate_in_any_dimension(dim):
    phi = torch.nn.Parameter(torch.ones(dim))
    optimizer = MetricGuided(SGD([phi], lr=0.25), lambda points: 1e-3 * points.square().sum(1), combine="replace")
    phi.grad = torch.ones(dim)
    optimizer.step()
    assert (phi - 1).norm().item() == pytest.approx(0.25, rel=1e-4)


def test_the_papers_formula_is_taken_literally_without_normalisation():
    phi = start(2)
    optimizer = MetricGuided(SGD([phi], lr=0.1), value, estimator="exact", weight=0.7, normalise=False)
    before = phi.detach().clone()
    loss(phi).backward()
    gradient = phi.grad.clone()
    expected = before - 0.1 * (gradient + 0.7 * exact_direction(value, before, gradient[:, None]))
    optimizer.step()
    torch.testing.assert_close(phi.detach(), expected)


def test_members_of_a_population_do_not_influence_each_other():
    together, alone = start(3), torch.nn.Parameter(start(3).detach()[1])
    walk(MetricGuided(SGD([together], lr=0.05), value, estimator="exact"), together, 20)
    walk(MetricGuided(SGD([alone], lr=0.05), value, estimator="exact"), alone, 20)
    torch.testing.assert_close(together[1], alone)


@pytest.mark.parametrize("base", BASES)
def test_the_same_seed_gives_the_same_bits_and_another_does_not(base):
    ends = []
    for seed in (1, 1, 2):
        phi = start(2)
        walk(MetricGuided(BASES[base]([phi]), value, seed=seed), phi, 20)
        ends.append(phi.detach())
    assert torch.equal(ends[0], ends[1])
    assert not torch.equal(ends[0], ends[2])


@pytest.mark.parametrize("base", BASES)
def test_a_run_resumed_from_a_file_is_bit_identical(base):
    phi = start(2)
    optimizer = MetricGuided(BASES[base]([phi]), value)
    walk(optimizer, phi, 7)
    file = io.BytesIO()
    torch.save({"phi": phi.detach(), "optimizer": optimizer.state_dict()}, file)
    walk(optimizer, phi, 9)

    file.seek(0)
    saved = torch.load(file, weights_only=True)
    resumed = torch.nn.Parameter(saved["phi"])
    other = MetricGuided(BASES[base]([resumed]), value, seed=99)
    other.load_state_dict(saved["optimizer"])
    walk(other, resumed, 9)
    assert torch.equal(phi, resumed)


def test_a_deep_copy_goes_its_own_way_to_the_same_place():
    phi = start()
    optimizer = MetricGuided(Adam([phi], lr=0.05), value)
    CosineAnnealingLR(optimizer, 50)
    walk(optimizer, phi, 3)
    twin, twin_phi = copy.deepcopy((optimizer, phi))
    walk(optimizer, phi, 5)
    assert not torch.equal(phi, twin_phi)
    walk(twin, twin_phi, 5)
    assert torch.equal(phi, twin_phi)


@pytest.mark.parametrize("attach_to", ["wrapper", "base"])
def test_schedulers_on_either_set_the_learning_rate_also_after_loading(attach_to):
    phi = start()
    base = SGD([phi], lr=1.0)
    optimizer = MetricGuided(base, value, combine="replace")
    optimizer.load_state_dict(optimizer.state_dict())
    scheduler = ExponentialLR(optimizer if attach_to == "wrapper" else base, gamma=0.1)
    lengths = []
    for _ in range(3):
        before = phi.detach().clone()
        walk(optimizer, phi, 1)
        scheduler.step()
        lengths.append((phi.detach() - before).norm().item())
    assert lengths == pytest.approx([1.0, 0.1, 0.01], rel=1e-3)
    assert optimizer.param_groups is base.param_groups


def test_the_closure_is_called_once_with_gradients_and_its_loss_returned():
    phi, twin = start(), start()
    optimizer, plain = (MetricGuided(SGD([p], lr=0.1), value) for p in (phi, twin))
    calls = []

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        result = loss(phi)
        result.backward()
        calls.append(result)
        return result

    assert optimizer.step(closure=closure) is calls[0]
    assert len(calls) == 1
    walk(plain, twin, 1)
    assert torch.equal(phi, twin)


def test_the_loss_gradient_is_left_as_it_was():
    phi = start()
    optimizer = MetricGuided(SGD([phi], lr=0.1), value)
    loss(phi).backward()
    gradient = phi.grad
    before = gradient.clone()
    optimizer.step()
    assert phi.grad is gradient and torch.equal(gradient, before)
    optimizer.zero_grad()
    assert phi.grad is None


def test_its_own_state_is_kept_apart_from_the_bases():
    phi = start()
    base = Adam([phi])
    optimizer = MetricGuided(base, value)
    walk(optimizer, phi, 1)
    assert set(base.state[phi]) == {"step", "exp_avg", "exp_avg_sq"}
    assert "past_gradients" in optimizer.state[phi]


def test_a_value_network_is_evaluated_in_eval_mode_and_left_as_it_was():
    norm = torch.nn.BatchNorm1d(4)
    net = torch.nn.Sequential(norm, torch.nn.Linear(4, 1), torch.nn.Flatten(0))
    net[1].eval()
    modes = []
    net.register_forward_hook(lambda _module, _inputs, output: modes.append((norm.training, output.requires_grad)))
    phi = start()
    walk(MetricGuided(SGD([phi], lr=0.1), net), phi, 3)
    assert modes == [(False, False)] * 3
    assert net.training and norm.training and not net[1].training
    assert torch.equal(norm.running_mean, torch.zeros(4)) and int(norm.num_batches_tracked) == 0
    assert all(parameter.grad is None for parameter in net.parameters())


def test_one_step_calls_the_value_function_once():
    rows = []
    phi = start(2)
    counted = MetricGuided(SGD([phi], lr=0.1), lambda points: rows.append(len(points)) or value(points), pairs=3)
    walk(counted, phi, 4)
    assert rows == [2 * 2 * 3] * 4


def test_members_without_a_finite_direction_follow_the_loss_and_one_warning_says_so():
    def half_broken(points: torch.Tensor) -> torch.Tensor:
        return torch.where(points[:, 0] > 50, torch.nan, value(points))

    phi = torch.nn.Parameter(torch.stack([torch.zeros(4), torch.full((4,), 100.0)]))
    plain = torch.nn.Parameter(phi.detach().clone())
    optimizer = MetricGuided(SGD([phi], lr=0.01), half_broken)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        walk(optimizer, phi, 3)
    walk(SGD([plain], lr=0.01), plain, 3)
    assert [warning.category for warning in caught] == [MetricOptWarning]
    assert "1 of 2 members" in str(caught[0].message)
    assert torch.equal(phi[1], plain[1])
    assert bool(torch.isfinite(phi).all()) and not torch.equal(phi[0], plain[0])


def test_a_broken_loss_gradient_does_not_stay_in_the_search_space():
    phi = start()
    optimizer = MetricGuided(SGD([phi], lr=0.0), value, combine="replace")
    phi.grad = torch.full((4,), torch.nan)
    optimizer.step()
    assert bool(torch.isfinite(phi).all())
    assert bool(torch.isfinite(optimizer.state[phi]["mean_square"]).all())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"combine": "sum"}, "combine is 'sum'; expected 'add' or 'replace'"),
        ({"estimator": "sgd"}, "estimator is 'sgd'; expected 'es' or 'exact'"),
        ({"pairs": 0}, "pairs is 0; expected at least 1"),
        ({"memory": 0}, "memory is 0; expected at least 1"),
        ({"sigma": 0.0}, "sigma is 0.0; expected a positive number"),
        ({"weight": -1.0}, "weight is -1.0; expected at least 0"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises((ValueError, UnknownNameError), match=message):
        MetricGuided(SGD([start()], lr=0.1), value, **settings)


def test_phi_must_be_the_only_parameter():
    with pytest.raises(ValueError, match=r"2 parameters of shapes \(4,\), \(4,\)"):
        MetricGuided(SGD([start(), start()], lr=0.1), value)
    optimizer = MetricGuided(SGD([start()], lr=0.1), value)
    with pytest.raises(ValueError, match="one parameter phi"):
        optimizer.add_param_group({"params": [start()]})


def test_foreign_states_are_refused_before_anything_is_changed():
    phi = start()
    optimizer = MetricGuided(Adam([phi]), value)
    with pytest.raises(FileFormatError, match="no 'guided'"):
        optimizer.load_state_dict(Adam([phi]).state_dict())
    other = MetricGuided(Adam([phi]), value, memory=5)
    walk(other, phi, 1)
    with pytest.raises(FileFormatError, match=r"\(1, 5, 4\), expected \(1, 3, 4\)"):
        optimizer.load_state_dict(other.state_dict())
    assert not optimizer.base.state
