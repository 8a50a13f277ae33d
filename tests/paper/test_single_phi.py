"""One phi goes its own way through the code: in all it does it must be a population of one."""

import copy
import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch.optim import SGD, Adam

from metricopt.core.errors import MetricOptWarning
from metricopt.paper._single_phi import SinglePhi, combinations_of_one
from metricopt.paper.equation_4_direction import guided_direction
from metricopt.paper.gram_schmidt import orthonormal_combinations
from metricopt.paper.guided import MetricGuided
from metricopt.paper.network import ValueNetwork
from metricopt.paper.past_gradients import no_gradients
from metricopt.paper.value_function import OnHost

DIM = 6


def bowl(points: torch.Tensor) -> torch.Tensor:
    return (points - 0.3).square().sum(1)


def network() -> ValueNetwork:
    return ValueNetwork(DIM, generator=torch.Generator().manual_seed(0))


def gradients(steps: int, seed: int = 0) -> torch.Tensor:
    """Small whole numbers: their inner products are the same in whatever order a library adds."""
    return torch.randint(-4, 5, (steps, DIM), generator=torch.Generator().manual_seed(seed)).float()


def guided(shape: tuple[int, ...], value=bowl, *, as_population: bool, **options) -> MetricGuided:
    phi = torch.nn.Parameter(torch.linspace(-1, 1, DIM).reshape(shape))
    optimizer = MetricGuided(Adam([phi], lr=0.05), value, seed=4, **options)
    if as_population:
        optimizer._alone = False
    return optimizer


def walk(optimizer: MetricGuided, steps: torch.Tensor) -> torch.Tensor:
    phi = optimizer._phi
    for gradient in steps:
        phi.grad = gradient.reshape(phi.shape).clone()
        optimizer.step()
    return phi.detach()


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5), st.integers(1, 7), st.integers(0, 10_000))
def test_its_basis_is_that_of_a_population_of_one(size, dim, seed):
    rows = np.random.default_rng(seed).integers(-2, 3, size=(size, dim)).astype(float)
    rows[-1] = 0.0  # one that adds nothing
    gram = rows @ rows.T
    combinations = orthonormal_combinations(gram[None])[0]
    found = combinations_of_one(gram.tolist())
    np.testing.assert_allclose(np.reshape(found, (-1, size)), combinations[combinations.any(1)], atol=1e-6)


@settings(max_examples=40, deadline=None)
@example(memory=3, dim=3, pairs=1, seed=417)  # two gradients equally far from the span of the first
@given(memory=st.integers(1, 4), dim=st.integers(1, 9), pairs=st.integers(1, 5), seed=st.integers(0, 10_000))
def test_its_direction_is_that_of_a_population_of_one_at_every_step(memory, dim, pairs, seed):
    draw = torch.Generator().manual_seed(seed)
    past = torch.zeros(1, memory, dim).double()
    state = no_gradients(1, memory, dim)
    single = SinglePhi(state, pairs=pairs, sigma=0.2, dtype=torch.float32)
    for step in range(2 * memory):
        gradient = torch.randint(-2, 3, (dim,), generator=draw).float()  # often zero, or a combination of the others
        phi = torch.randn(dim, generator=draw)
        past[0, step % memory] = gradient
        generators = [torch.Generator().manual_seed(step) for _ in range(2)]
        expected = guided_direction(bowl, phi[None], past, pairs=pairs, sigma=0.2, generator=generators[0])[0]
        found = single.direction(
            lambda points: bowl(torch.from_numpy(points)).numpy(), phi.numpy(), gradient, generators[1]
        )
        found = torch.from_numpy(found) / (0.2**2 * pairs)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=2e-5)
        torch.testing.assert_close(state["past_gradients"], past)
    assert state["steps"] == 2 * memory


@pytest.mark.parametrize("shape", [(DIM,), (1, DIM)])
@pytest.mark.parametrize("value", [bowl, network()], ids=["function", "network"])
@pytest.mark.parametrize(
    "options",
    [{"weight": 0.7}, {"normalise": False}, {"combine": "replace"}, {"combine": "replace", "normalise": False}],
)
def test_its_path_is_that_of_a_population_of_one(shape, value, options):
    alone, population = (guided(shape, value, as_population=one, **options) for one in (False, True))
    ends = [walk(optimizer, gradients(25)) for optimizer in (alone, population)]
    # Values near .1 have eight digits, of whose difference two are lost, and 25 steps of Adam amplify the rest.
    torch.testing.assert_close(ends[0], ends[1], rtol=1e-4, atol=2e-5)
    torch.testing.assert_close(alone.state_dict()["guided"], population.state_dict()["guided"])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_broken_entries_of_a_gradient_count_as_zero(bad):
    steps = gradients(8)
    steps[3, 2] = bad
    alone, population = (guided((DIM,), as_population=one, combine="replace") for one in (False, True))
    torch.testing.assert_close(walk(alone, steps), walk(population, steps))
    assert bool(torch.isfinite(alone.state_dict()["guided"]["mean_square"]).all())


def test_a_broken_gradient_that_is_added_to_reaches_the_optimizer_as_it_is():
    steps = gradients(2)
    steps[1, 2] = math.nan
    for as_population in (False, True):
        broken = walk(guided((DIM,), as_population=as_population), steps).isnan()
        assert broken.nonzero().flatten().tolist() == [2]


def test_without_a_finite_direction_it_follows_the_loss_and_one_warning_says_so():
    optimizer = guided((DIM,), lambda points: points[:, 0] * math.nan, as_population=False)
    plain = torch.nn.Parameter(optimizer._phi.detach().clone())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        walk(optimizer, gradients(3))
    base = Adam([plain], lr=0.05)
    for plain.grad in gradients(3):
        base.step()
    assert torch.equal(optimizer._phi, plain)
    assert [warning.category for warning in caught] == [MetricOptWarning]
    assert "1 of 1 members" in str(caught[0].message)


def test_a_new_number_of_pairs_and_size_of_perturbations_hold_from_the_next_step():
    ends = []
    for as_population in (False, True):
        optimizer = guided((DIM,), as_population=as_population)
        walk(optimizer, gradients(4))
        optimizer.pairs, optimizer.sigma = 5, 0.4
        ends.append(walk(optimizer, gradients(4, seed=1)))
    torch.testing.assert_close(ends[0], ends[1], rtol=1e-5, atol=1e-6)


def test_the_estimator_may_be_changed_back_and_forth():
    ends = []
    for as_population in (False, True):
        optimizer = guided((DIM,), as_population=as_population)
        for estimator, seed in (("es", 0), ("exact", 1), ("es", 2)):
            optimizer.estimator = estimator
            end = walk(optimizer, gradients(2, seed=seed))
        ends.append(end)
    torch.testing.assert_close(ends[0], ends[1], rtol=1e-5, atol=1e-6)


def test_a_loaded_state_and_a_copy_go_on_where_it_was():
    optimizer = guided((DIM,), as_population=False)
    walk(optimizer, gradients(5))
    saved, phi, twin = copy.deepcopy(optimizer.state_dict()), optimizer._phi.detach().clone(), copy.deepcopy(optimizer)
    end = walk(optimizer, gradients(6, seed=1)).clone()
    assert torch.equal(walk(twin, gradients(6, seed=1)), end)
    with torch.no_grad():
        optimizer._phi.copy_(phi)
    optimizer.load_state_dict(saved)
    assert torch.equal(walk(optimizer, gradients(6, seed=1)), end)


def test_a_state_saved_in_single_precision_is_continued():
    optimizer = guided((DIM,), as_population=False)
    walk(optimizer, gradients(5))
    saved, phi = copy.deepcopy(optimizer.state_dict()), optimizer._phi.detach().clone()
    for name in ("past_gradients", "mean_square"):
        saved["guided"][name] = saved["guided"][name].float()
    end = walk(optimizer, gradients(6, seed=1)).clone()
    with torch.no_grad():
        optimizer._phi.copy_(phi)
    optimizer.load_state_dict(saved)
    torch.testing.assert_close(walk(optimizer, gradients(6, seed=1)), end)


def test_phi_may_move_to_other_memory():
    alone, population = (guided((DIM,), as_population=one) for one in (False, True))
    for optimizer in (alone, population):
        walk(optimizer, gradients(2))
        optimizer._phi.data = optimizer._phi.data + 1.0
        walk(optimizer, gradients(3, seed=1))
    torch.testing.assert_close(alone._phi, population._phi, rtol=1e-5, atol=1e-6)


def test_the_optimizer_may_keep_the_gradients_it_was_given():
    phi, kept = torch.nn.Parameter(torch.ones(DIM)), []

    class Keeping(SGD):
        def step(self, closure=None):
            kept.append(phi.grad)
            return super().step(closure)

    walk(MetricGuided(Keeping([phi], lr=0.1), bowl), gradients(2))
    assert not torch.equal(kept[0], kept[1])


def test_phi_may_become_double_on_the_way():
    optimizer = guided((DIM,), as_population=False)
    walk(optimizer, gradients(2))
    optimizer._phi.data = optimizer._phi.data.double()
    optimizer.base.state.clear()
    assert bool(walk(optimizer, gradients(2).double()).isfinite().all())


def test_a_saved_gradient_with_broken_entries_counts_as_zero_there():
    optimizer = guided((DIM,), as_population=False)
    walk(optimizer, gradients(2))
    saved = copy.deepcopy(optimizer.state_dict())
    saved["guided"]["past_gradients"][0, 0, 1] = math.nan
    optimizer.load_state_dict(saved)
    assert bool(walk(optimizer, gradients(2)).isfinite().all())  # a warning would be an error here


def test_values_in_a_column_are_values():
    values = (lambda points: bowl(points)[:, None]), bowl
    column, row = (walk(guided((DIM,), value, as_population=False), gradients(3)) for value in values)
    assert torch.equal(column, row)


def test_a_value_function_that_takes_arrays_gets_arrays_until_it_asks_for_tensors():
    asked = []

    class Value:
        def on_host(self, points: np.ndarray) -> np.ndarray | None:
            asked.append(len(points))
            return None if len(asked) > 2 else ((points - 0.3) ** 2).sum(1)

        def __call__(self, points: torch.Tensor) -> torch.Tensor:
            asked.append(points)
            return bowl(points)

    found = walk(guided((DIM,), Value(), as_population=False), gradients(3))
    assert asked[:3] == [6, 6, 6] and isinstance(asked[3], torch.Tensor) and len(asked) == 4
    torch.testing.assert_close(found, walk(guided((DIM,), as_population=False), gradients(3)))


def test_the_value_network_takes_arrays():
    assert isinstance(network(), OnHost)


def test_hooks_see_the_step_as_on_any_optimizer():
    optimizer, seen = guided((DIM,), as_population=False), []
    before = optimizer.register_step_pre_hook(lambda found, _args, _kwargs: seen.append(("pre", found)))
    after = optimizer.register_step_post_hook(lambda found, _args, _kwargs: seen.append(("post", found)))
    walk(optimizer, gradients(1))
    assert seen == [("pre", optimizer), ("post", optimizer)]
    before.remove()
    after.remove()
    walk(optimizer, gradients(1))
    assert len(seen) == 2


def test_hooked_and_unhooked_steps_are_the_same():
    ends = []
    for hooked in (False, True):
        optimizer = guided((DIM,), as_population=False)
        if hooked:
            optimizer.register_step_post_hook(lambda *_: None)
        ends.append(walk(optimizer, gradients(5)))
    assert torch.equal(ends[0], ends[1])


def test_a_gradient_with_a_graph_is_no_obstacle():
    phi = torch.nn.Parameter(torch.ones(DIM))
    optimizer = MetricGuided(SGD([phi], lr=0.1), bowl)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, about the cycle that create_graph makes
        phi.pow(3).sum().backward(create_graph=True)
    optimizer.step()
    assert not phi.equal(torch.ones(DIM))
    assert phi.grad is not None and phi.grad.requires_grad
    phi.grad = None
