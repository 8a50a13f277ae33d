import hashlib
from importlib import resources

import pytest
import torch

from metricopt.adapters import FiLM, adapt
from metricopt.core import files
from metricopt.core.errors import FileFormatError
from metricopt_lab.networks import resnet32, small_convnet
from metricopt_lab.problems import load_network, pretrained_resnet32, pretrained_small_convnet
from metricopt_lab.problems.pretrained import save_network

X = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def test_the_shipped_weights_are_those_that_were_trained():
    content = resources.files("metricopt_lab.data").joinpath("files/cifar10_resnet32.safetensors").read_bytes()
    assert hashlib.sha256(content).hexdigest() == "b5c9179b6c2d0bc1f498995c44a4776537c4ca2030eb42a1ad4a46058d17122f"


def test_the_shipped_network_gives_what_it_gave_when_it_was_packed():
    # The first four logits in double precision, noted when the weights were packed.
    expected = [
        [0.0666, -0.2226, 1.5685, -0.0524],
        [-1.3426, -2.0139, 3.6369, 0.8458],
        [-1.1431, -1.9228, 2.1738, 1.7291],
        [-0.8717, 0.5152, 1.7477, 0.4817],
    ]
    with torch.no_grad():
        found = pretrained_resnet32().double()(X.double())[:, :4]
    torch.testing.assert_close(found, torch.tensor(expected).double(), atol=6e-5, rtol=0)


def test_the_small_network_that_comes_with_the_package_is_the_one_that_was_trained():
    content = resources.files("metricopt_lab.data").joinpath("files/cifar10_small_convnet.safetensors").read_bytes()
    assert hashlib.sha256(content).hexdigest() == "0eef9e6de3b8c0e8a2f16694af28cd009ddf76fe53eb30e919835c6a12fdbe03"
    with torch.no_grad():
        found = pretrained_small_convnet().double()(X.double())[:1, :4]
    expected = torch.tensor([[-2.9561, -0.7968, 3.2418, 0.7115]]).double()  # noted when the weights were packed
    torch.testing.assert_close(found, expected, atol=6e-5, rtol=0)


def test_every_call_gives_a_network_of_its_own_with_the_same_bits_that_film_leaves_alone_at_zero():
    first, second = pretrained_resnet32(), pretrained_resnet32()
    assert torch.equal(first(X), second(X)) and first.fc.weight is not second.fc.weight
    assert torch.equal(adapt(first, FiLM())(X), second(X))


def test_a_network_that_was_kept_comes_back_with_the_same_bits(tmp_path):
    net = small_convnet().to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    save_network(tmp_path, "small_convnet", net, {"seed": 3})
    again = load_network(tmp_path)
    assert all(torch.equal(a, b) for a, b in zip(net.state_dict().values(), again.state_dict().values(), strict=True))
    assert not again.training


def test_the_file_of_another_network_is_refused(tmp_path):
    save_network(tmp_path, "small_convnet", resnet32(), {})
    with pytest.raises(FileFormatError, match=r"\(small_convnet\) has conv1\.bias of shape None; expected \(64,\)"):
        load_network(tmp_path)


def test_a_manifest_without_a_model_is_refused(tmp_path):
    files.save(tmp_path, "network", {}, {}, version=1)
    with pytest.raises(FileFormatError, match="the manifest has model='None'"):
        load_network(tmp_path)
