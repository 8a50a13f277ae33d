"""An affine of embeddings comes before they are normalised, is folded into the layer, and costs a query that layer."""

import pytest
import torch
from torch import nn

from metricopt.adapters import EmbeddingAffine, FiLM, adapt
from metricopt.adapters.graph.cache import PrefixCache
from metricopt.core.errors import AdapterError
from metricopt.data.dataset import Examples


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Linear(5, 40), nn.BatchNorm1d(40), nn.ReLU())
        self.out = nn.Linear(40, 3)

    def forward(self, x):
        return nn.functional.normalize(self.out(self.body(x)))


X = torch.randn(30, 5, generator=torch.Generator().manual_seed(1))
PHI = torch.randn(6, generator=torch.Generator().manual_seed(2))


def test_units_are_scaled_and_shifted_before_the_length_becomes_1():
    net = Embedder().eval()
    model = adapt(net, EmbeddingAffine(strength=0.5), example=X)
    raw = net.out(net.body(X))
    expected = nn.functional.normalize(raw * (1 + 0.5 * PHI[:3]) + 0.5 * PHI[3:])
    torch.testing.assert_close(model.outputs(PHI[None], X)[0], expected)
    assert torch.equal(model.outputs(torch.zeros(1, 6), X)[0], net(X))


def test_it_is_folded_into_the_layer_whatever_follows():
    model = adapt(Embedder().eval(), EmbeddingAffine(), example=X)
    model.phi.data.copy_(PHI)
    expected = model(X).detach()
    merged, said = model.merged()
    assert isinstance(merged, Embedder) and not said
    torch.testing.assert_close(merged(X), expected)


def test_the_cache_keeps_what_the_layer_gives():
    data = Examples(X, torch.arange(30) % 3)
    model = adapt(Embedder().eval(), EmbeddingAffine(), example=X)
    cache = PrefixCache(model, probe=X)
    cache.fill(data)
    assert cache.reason == "" and cache.bytes_in_memory == 30 * 3 * 4
    torch.testing.assert_close(cache.all_outputs(PHI[None], data, at_once=100), model.outputs(PHI[None], X))
    both = adapt(Embedder().eval(), FiLM(dim=4) + EmbeddingAffine(), example=X)
    phi = torch.randn(3, 10, generator=torch.Generator().manual_seed(3))
    cached = PrefixCache(both, probe=X)
    torch.testing.assert_close(cached.all_outputs(phi, data, at_once=100), both.outputs(phi, X))


def test_a_network_without_such_a_layer_is_refused():
    with pytest.raises(AdapterError, match="no layer makes an embedding"):
        adapt(nn.Sequential(nn.ReLU()), EmbeddingAffine(), example=X)
