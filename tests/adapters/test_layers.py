import pytest
import torch
from torch import nn

from metricopt.adapters import FiLM, adapt
from metricopt.core.errors import AdapterError
from metricopt_lab.networks import resnet32


def test_patterns_name_many_layers_at_once():
    net = resnet32()
    assert adapt(net, FiLM(layers="stage3.*.norm2")).layers == tuple(f"stage3.{i}.norm2" for i in range(5))
    assert adapt(net, FiLM(layers=["fc", "stem.*"])).layers == ("stem.conv", "stem.norm", "fc")
    assert len(adapt(net, FiLM()).layers) == 31


def test_a_misspelt_name_is_answered_with_the_nearest_one():
    with pytest.raises(AdapterError, match=r"is named 'stage3.4.norm_2'; did you mean 'stage3.4.norm2'\?"):
        adapt(resnet32(), FiLM(layers="stage3.4.norm_2"))


def test_an_unknown_name_is_answered_with_the_layers_there_are():
    with pytest.raises(AdapterError, match=r"is named 'xyz'; the network has '0' \(Linear\), '1' \(BatchNorm1d\)"):
        adapt(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)), FiLM(layers="xyz"))


class Unused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used = nn.Linear(2, 3)
        self.unused = nn.BatchNorm1d(3)

    def forward(self, x):
        return self.used(x)


def test_a_layer_that_is_never_called_is_an_error_not_an_adapter_without_effect():
    with pytest.raises(AdapterError, match="'unused' is defined but not called for the example"):
        adapt(Unused(), FiLM(layers="unused"), example=torch.ones(4, 2))
    with pytest.raises(AdapterError, match="never called 'unused'"):
        adapt(Unused(), FiLM())(torch.ones(4, 2))
