import pytest
import torch
from torch import nn

from metricopt.adapters import DynamicBias, FiLM, OutputAffine, adapt
from metricopt.adapters.graph.cache import PrefixCache
from metricopt.data.dataset import Examples
from metricopt.losses import cross_entropy
from metricopt.metrics import mcr
from metricopt.task.supervised import SupervisedTask
from metricopt_lab.networks import TabularMLP
from metricopt_lab.networks.resnet import CifarResNet

ROWS = 60


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


DATA = Examples(numbers(ROWS, 6), torch.arange(ROWS) % 2)
OTHER = Examples(numbers(ROWS, 6, seed=1), torch.arange(ROWS) % 2)


def model():
    torch.manual_seed(0)
    return adapt(TabularMLP(6), FiLM(dim=8) + OutputAffine(), example=DATA.inputs[:2])


def task(**options):
    arguments = {"loss": cross_entropy, "metric": mcr(), "train": DATA, "search": OTHER, "batch_size": 8} | options
    return SupervisedTask(model(), **arguments)


def losses(some, steps=12):
    """Losses of two members along batches that the cache first computes and then remembers."""
    batches, phi = some.batches(2, torch.Generator().manual_seed(0)), numbers(2, some.dim, seed=4)
    return torch.stack([some.loss(phi, next(batches)) for _ in range(steps)])


def test_losses_directions_outputs_and_costs_are_the_same_with_and_without_cache():
    cached, plain = task(), task(cache=0)
    phi = numbers(5, cached.dim, seed=5)
    torch.testing.assert_close(losses(cached), losses(plain))
    assert cached.cache.holds(DATA) and not plain.cache.holds(DATA)
    torch.testing.assert_close(cached.probe().directions(phi[0]), plain.probe().directions(phi[0]))
    torch.testing.assert_close(cached.probe().shown(phi, rows=7), plain.probe().shown(phi, rows=7))
    torch.testing.assert_close(cached.search_outputs(phi), plain.search_outputs(phi))
    torch.testing.assert_close(cached.costs(phi), plain.costs(phi))


def test_starts_that_mix_training_and_search_rows_are_the_same_with_and_without_cache():
    found = []
    for some in (task(labels_visible=True), task(labels_visible=True, cache=0)):
        count, batches = some.probe().start_batches(torch.Generator().manual_seed(0))
        phi = numbers(count, some.dim, seed=5)
        found.append(torch.stack([some.loss(phi, next(batches)) for _ in range(6)]))
    torch.testing.assert_close(*found)


def test_the_network_before_the_cut_sees_each_training_row_at_most_twice():
    some = task()
    seen = []
    some.model.net.hidden[0][0].register_forward_hook(lambda _layer, _inputs, output: seen.append(len(output)))
    some.cache.gather([(DATA, torch.arange(0))])
    seen.clear()
    losses(some, steps=100)
    assert sum(seen) <= 2 * ROWS + 3 * 8


@pytest.mark.parametrize("at_once", [1, 7, 25, 1000])
def test_outputs_in_chunks_of_members_and_rows_are_those_of_all_at_once(at_once):
    some = task(rows_at_once=at_once)
    phi = numbers(5, some.dim, seed=5)
    torch.testing.assert_close(some.search_outputs(phi), some.model.outputs(phi, OTHER.inputs))
    torch.testing.assert_close(some.outputs(phi, OTHER.inputs), some.model.outputs(phi, OTHER.inputs))


def test_beyond_the_memory_limit_activations_are_in_files_with_the_same_bits():
    x = numbers(20, 3, 16, 16)
    images = Examples(x, torch.arange(20) % 10)
    adapted = adapt(CifarResNet(blocks=1), FiLM(dim=4, layers="stage3.*"))
    roomy, tight = PrefixCache(adapted, probe=x), PrefixCache(adapted, memory=100, probe=x)
    index = torch.tensor([[3, 1, 19]])
    for cache in (roomy, tight):
        cache.fill(images)
    assert roomy.bytes_on_disk == tight.bytes_in_memory == 0
    assert roomy.bytes_in_memory == tight.bytes_on_disk == 20 * 2 * 64 * 4 * 4 * 4
    for a, b in zip(roomy.gather([(images, index)]), tight.gather([(images, index)]), strict=True):
        assert torch.equal(a, b)


def test_activations_that_are_cheaper_to_compute_than_to_read_from_a_file_are_not_kept():
    cache = PrefixCache(model(), memory=100, probe=DATA.inputs)
    cache.fill(DATA)
    assert not cache.holds(DATA)
    assert cache.reason == "0 MiB for 60 rows are over the limit and not worth a file"
    phi, index = numbers(2, 10), torch.arange(5)
    expected = cache.model.outputs(phi, DATA.inputs[index])
    torch.testing.assert_close(cache.outputs(phi, cache.gather([(DATA, index)])), expected)


def test_augmented_training_rows_are_never_cached_but_the_search_rows_are():
    some = task(augment=lambda inputs, generator: inputs + torch.randn(inputs.shape, generator=generator))
    losses(some)
    assert not some.cache.holds(DATA) and some.cache.holds(OTHER)
    assert some.cache.reason == "the training data are augmented"


class Wayward(nn.Module):
    """Traced in one way, run in another."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 2)

    def forward(self, x):
        h = self.layer(x)
        return h if isinstance(x, torch.Tensor) else -h


class Mixing(nn.Module):
    """Rows are centred by their mean before the adapter."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 2)

    def forward(self, x):
        return self.layer(x - x.mean(0))


class Overwriting(nn.Module):
    """What the adapter cannot change is changed after it."""

    def __init__(self):
        super().__init__()
        self.first, self.layer = nn.Linear(6, 2), nn.Linear(6, 2)

    def forward(self, x):
        kept = self.first(x)
        return kept.add_(self.layer(x))


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 2)

    def forward(self, x):
        h = self.layer(x)
        return h if h.sum() > 0 else -h


@pytest.mark.parametrize(
    ("net", "layer", "reason"),
    [
        (Wayward(), "layer", "its trace computes something else than the network"),
        (Mixing(), "layer", "its rows influence each other"),
        (Overwriting(), "layer", "it overwrites activations that would be kept"),
        (Branching(), "layer", "torch.fx cannot trace it"),
    ],
)
def test_without_a_sound_cut_everything_goes_through_the_model(net, layer, reason):
    adapted = adapt(net, DynamicBias(dim=3, layer=layer))
    some = SupervisedTask(adapted, loss=cross_entropy, metric=mcr(), train=DATA, search=OTHER, batch_size=8)
    assert some.cache.reason.startswith(reason)
    phi = numbers(3, 3)
    assert torch.equal(some.search_outputs(phi), adapted.outputs(phi, OTHER.inputs))
    assert losses(some).isfinite().all() and not some.cache.holds(DATA)
