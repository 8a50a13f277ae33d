import copy

import pytest
import torch
from torch import nn

from metricopt.paper.network import Norm, ValueNetwork
from metricopt.paper.reptile import move_towards, stacked_copies

NORMS: tuple[Norm, ...] = ("batch", "layer", "none")


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def network(members=1, norm: Norm = "batch", seed=0, dim=5) -> ValueNetwork:
    return ValueNetwork(dim, members=members, norm=norm, generator=torch.Generator().manual_seed(seed))


def plain_twin(stack: ValueNetwork, member: int) -> nn.Sequential:
    """The paper's network out of torch's own layers, with the weights of one member."""
    layers: list[nn.Module] = []
    for i in range(len(stack.weights)):
        weight = stack.weights[i][member]  # (in, out)
        linear = nn.Linear(*weight.shape)
        linear.load_state_dict({"weight": weight.T, "bias": stack.biases[i][member, 0]})
        layers.append(linear)
        if i < len(stack.hidden):
            width = stack.hidden[i]
            if stack.norm != "none":
                norm = nn.BatchNorm1d(width) if stack.norm == "batch" else nn.LayerNorm(width)
                with torch.no_grad():
                    norm.weight.copy_(stack.gains[i][member, 0])
                    norm.bias.copy_(stack.offsets[i][member, 0])
                layers.append(norm)
            layers.append(nn.ReLU())
    return nn.Sequential(*layers)


def jiggled(stack: ValueNetwork) -> ValueNetwork:
    """The same with gains and offsets that are not 1 and 0."""
    with torch.no_grad():
        for i, parameter in enumerate([*stack.gains, *stack.offsets]):
            parameter.add_(0.3 * numbers(*parameter.shape, seed=i))
    return stack


@pytest.mark.parametrize("norm", NORMS)
def test_each_member_is_the_papers_mlp_made_of_torchs_own_layers(norm):
    stack, phi = jiggled(network(members=3, norm=norm)), numbers(20, 5)
    each, embedding = stack.train().each(phi), stack.embed(phi)
    assert [tuple(weight.shape[1:]) for weight in stack.weights] == [(5, 64), (64, 32), (32, 32), (32, 16), (16, 1)]
    for member in range(3):
        twin = plain_twin(stack, member).train()
        torch.testing.assert_close(each[member], twin(phi)[:, 0], atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(embedding[member], twin[:-1](phi), atol=1e-5, rtol=1e-4)


def test_tracked_statistics_are_those_of_torchs_batch_norm():
    stack = jiggled(network(members=2, norm="batch")).train()
    twins = [plain_twin(stack, member).train() for member in range(2)]
    for seed in range(4):
        phi = numbers(2, 12, 5, seed=seed)  # rows of its own for each member
        stack.each(phi)
        for twin, rows in zip(twins, phi, strict=True):
            twin(rows)
    for member, twin in enumerate(twins):
        for layer, norm in enumerate(module for module in twin if isinstance(module, nn.BatchNorm1d)):
            assert norm.running_mean is not None and norm.running_var is not None
            for name, expected in (("mean", norm.running_mean), ("var", norm.running_var)):
                tracked = stack.get_buffer(f"running_{name}_{layer}")[member, 0]
                torch.testing.assert_close(tracked, expected, atol=1e-5, rtol=1e-4)
    phi = numbers(7, 5, seed=9)
    expected = torch.stack([twin.eval()(phi)[:, 0] for twin in twins])
    torch.testing.assert_close(stack.eval().each(phi), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("norm", NORMS)
def test_in_eval_mode_the_value_of_a_row_does_not_depend_on_the_other_rows(norm):
    stack, phi = network(members=2, norm=norm), numbers(9, 5)
    stack.train()(numbers(30, 5, seed=1))
    before = [buffer.clone() for buffer in stack.buffers()]
    alone = torch.cat([stack.eval()(row[None]) for row in phi])
    torch.testing.assert_close(stack(phi), alone, atol=1e-6, rtol=1e-5)
    assert all(torch.equal(a, b) for a, b in zip(before, stack.buffers(), strict=True))


def test_in_train_mode_batch_norm_does_mix_the_rows_which_is_why_values_are_read_in_eval_mode():
    stack, phi = network(norm="batch").train(), numbers(9, 5)
    assert not torch.allclose(stack(phi)[:5], stack(phi[:5]), atol=1e-3)


def test_the_prediction_is_the_members_mean():
    stack, phi = network(members=4, norm="none"), numbers(6, 5)
    torch.testing.assert_close(stack(phi), stack.each(phi).sum(0) / 4)


def test_members_start_apart_and_the_same_generator_gives_the_same_network():
    a, b, c = network(members=2), network(members=2), network(members=2, seed=1)
    assert all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))
    assert not torch.equal(a.weights[0], c.weights[0])
    assert not torch.equal(a.weights[0][0], a.weights[0][1])


def test_standardising_moves_inputs_and_targets_to_mean_zero_and_size_one():
    phi = numbers(200, 5) * torch.tensor([1.0, 2.0, 3.0, 0.0, 0.5]) + 7
    costs = 0.3 + 0.02 * numbers(200, seed=1)
    stack, untouched = network(norm="none"), network(norm="none")
    stack.standardise(phi, costs)
    inside = (phi - stack.input_mean) / stack.input_std
    torch.testing.assert_close(inside.mean(0), torch.zeros(5), atol=1e-4, rtol=0)
    assert float(inside.var(0).mean()) == pytest.approx(1, abs=1e-4)  # one scale for all: a dead coordinate stays dead
    expected = costs.mean() + costs.std() * untouched(inside)
    torch.testing.assert_close(stack(phi), expected)


def test_costs_and_phi_that_never_vary_do_not_blow_up():
    stack = network(norm="none")
    stack.standardise(torch.ones(10, 5), torch.full((10,), 0.25))
    assert stack(torch.ones(3, 5)).isfinite().all()


@pytest.mark.parametrize("norm", NORMS)
def test_copies_compute_what_the_original_does_and_share_nothing_with_it(norm):
    one, phi = jiggled(network(norm=norm)), numbers(8, 5)
    one.standardise(phi, numbers(8, seed=1))
    one.train()(phi)
    copies = stacked_copies(one.eval(), 3).eval()
    torch.testing.assert_close(copies.each(phi), one(phi).expand(3, -1), atol=1e-6, rtol=1e-5)
    before = one(phi)
    with torch.no_grad():
        for parameter in copies.parameters():
            parameter.add_(1.0)
    assert torch.equal(one(phi), before)


@pytest.mark.parametrize("rate", [0.0, 0.25, 1.0])
def test_a_meta_update_moves_every_weight_and_statistic_by_its_rate_towards_the_mean_copy(rate):
    one = jiggled(network())
    copies = stacked_copies(one, 3).train()
    copies.each(numbers(3, 10, 5))  # moves the running statistics
    with torch.no_grad():
        for i, parameter in enumerate(copies.parameters()):
            parameter.add_(numbers(*parameter.shape, seed=i))
    before = {name: tensor.clone() for name, tensor in one.state_dict().items()}
    move_towards(one, copies, rate)
    for name, after in one.state_dict().items():
        target = copies.state_dict()[name]
        mean = target.mean(0, keepdim=True) if target.dim() == 3 else target
        torch.testing.assert_close(after, (1 - rate) * before[name] + rate * mean)
        if rate == 0:
            assert torch.equal(after, before[name])


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("norm", ["batch", "none"])
@pytest.mark.parametrize("training", [False, True])
def test_asked_with_arrays_it_answers_as_in_eval_mode_also_after_its_weights_changed(members, norm, training):
    stack, phi = jiggled(network(members=members, norm=norm)), numbers(6, 5)
    for seed in range(2):
        stack.standardise(numbers(30, 5, seed=seed), numbers(30, seed=seed))
        with torch.no_grad():
            stack.biases[1].add_(1.0)
        expected = stack.eval().each(phi).mean(0)
        found = stack.train(training).on_host(phi.numpy())
        assert found is not None and stack.training == training
        torch.testing.assert_close(torch.from_numpy(found), expected.detach(), atol=1e-5, rtol=1e-4)


CHANGES = {
    "standardise": lambda stack: stack.standardise(numbers(30, 5, seed=3), numbers(30, seed=3)),
    "loaded buffers": lambda stack: stack.load_state_dict({"input_mean": torch.ones(5)}, strict=False),
    "tracked statistics": lambda stack: stack.train()(numbers(40, 5, seed=3)),
    "meta-update": lambda stack: move_towards(stack, jiggled(stacked_copies(stack, 2)), 0.5),
    "gains alone": lambda stack: [gain.mul_(1.5) for gain in stack.gains],
    "the last bias alone": lambda stack: stack.biases[-1].add_(1.0),
    "a buffer by hand": lambda stack: stack.get_buffer("running_var_0").mul_(3.0),
    "the scale by hand": lambda stack: stack.target_std.mul_(3.0),
    "replaced tensors": lambda stack: stack.load_state_dict(network(seed=1).state_dict(), assign=True),
    "to double and back": lambda stack: jiggled(stack.double()).float(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_asked_with_arrays_it_sees_every_kind_of_change(change):
    stack, phi = jiggled(network()), numbers(6, 5)
    before = torch.from_numpy(stack.on_host(phi.numpy())).clone()
    with torch.no_grad():
        CHANGES[change](stack)
    expected = stack.eval().each(phi).mean(0).detach()  # layer by layer, as its gradient might be wanted
    torch.testing.assert_close(torch.from_numpy(stack.on_host(phi.numpy())), expected, atol=1e-5, rtol=1e-4)
    assert not torch.allclose(before, expected, atol=1e-5)


def test_asked_with_arrays_it_declines_where_torch_is_better():
    assert network(norm="layer").on_host(numbers(6, 5).numpy()) is None
    assert network().on_host(numbers(1000, 5).numpy()) is None


def test_a_copy_that_has_changed_as_often_as_the_original_answers_with_its_own_weights():
    stack, phi = network().eval(), numbers(6, 5)
    with torch.no_grad():
        for _ in range(50):
            stack.biases[-1].add_(1.0)
        before, twin = stack(phi), copy.deepcopy(stack)
        while changes(twin) < changes(stack):
            twin.biases[-1].add_(1.0)
        assert changes(twin) == changes(stack)
        assert not torch.allclose(twin(phi), before)


def changes(stack: ValueNetwork) -> int:
    """As torch counts them, in all tensors together."""
    return sum(tensor._version for tensor in (*stack.parameters(), *stack.buffers()))
