"""Small runs: the adapter's search, the paper's two stages, finetuned weights, each in a folder with its event log."""

import warnings

import pytest
import torch
from torch import nn

import metricopt as mo
from metricopt.core.errors import FlatValueWarning
from metricopt.losses import cross_entropy


def problem():
    """Two classes, one of them rare, and a network trained for a moment."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(1500, 4, generator=draw)
    y = (x[:, 0] + 0.5 * torch.randn(1500, generator=draw) > 1).long()
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=draw))
    return net, (x[:500], y[:500]), (x[500:], y[500:])


def optimized(folder, *, queries, preset="default", keep=(), tune="adapter"):
    net, train, val = problem()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlatValueWarning)
        return mo.optimize(
            net,
            loss=cross_entropy,
            metric="f1",
            train=train,
            val=val,
            queries=queries,
            preset=preset,
            tune=tune,
            keep=keep,
            run_dir=folder,
        )


@pytest.fixture(scope="session")
def result(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return optimized(folder, queries=40), folder


@pytest.fixture(scope="session")
def result_without_folder():
    return optimized(None, queries=40)


@pytest.fixture(scope="session")
def folder(result):
    return result[1]


@pytest.fixture(scope="session")
def weights_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("weights")
    optimized(folder, queries=40, tune="weights")
    return folder


@pytest.fixture(scope="session")
def paper_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("paper")
    optimized(folder, queries=26, preset="paper")
    return folder
