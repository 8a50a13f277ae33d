"""Where no weights can take the adapter in, what `merge` gives computes it, and is a module like any other."""

import io
import pickle

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from metricopt.adapters import DynamicBias, OutputAffine, adapt
from metricopt.adapters.computing import Merged
from metricopt.core.errors import MergeWarning

X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))


class ThreeTanh(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 3)
        self.task = "ratings"

    def forward(self, x):
        return 3 * torch.tanh(self.body(x))


NETS = {
    "softmax": lambda: nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=1)),
    "3 * tanh": ThreeTanh,
    "weight norm": lambda: nn.Sequential(weight_norm(nn.Linear(4, 3)), nn.Flatten()),
}


@pytest.fixture(params=NETS)
def model(request):
    torch.manual_seed(0)
    model = adapt(NETS[request.param](), DynamicBias(dim=2) + OutputAffine(), example=X)
    model.phi.data.copy_(torch.linspace(-0.5, 0.8, model.dim))
    return model


def merged(model):
    with pytest.warns(MergeWarning, match="merge gives a module that computes it"):
        return model.merge()


def test_it_computes_what_the_adapted_model_does(model):
    assert torch.allclose(merged(model)(X), model(X), atol=1e-6)


def test_it_is_pickled_and_exported(model):
    found = merged(model)
    if "weight norm" not in str(type(found)) and not any("Parametriz" in type(m).__name__ for m in found.modules()):
        assert torch.equal(pickle.loads(pickle.dumps(found))(X), found(X))
    exported = torch.export.export(found, (X,), strict=False)
    assert torch.allclose(exported.module()(X), found(X), atol=1e-6)


def test_its_state_dict_holds_all_there_is(model):
    found, other = merged(model), merged(model)
    file = io.BytesIO()
    torch.save(found.state_dict(), file)
    for tensor in other.state_dict().values():
        tensor.zero_()
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(other(X), found(X))


def test_what_it_does_not_have_is_the_networks():
    model = adapt(ThreeTanh(), OutputAffine(), example=X)
    model.phi.data.fill_(0.5)
    found = merged(model)
    assert isinstance(found, Merged) and found.task == "ratings" and found.body.in_features == 4
    with pytest.raises(AttributeError, match="nothing"):
        found.nothing
