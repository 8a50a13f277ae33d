import pytest
import torch
from torch import nn

from metricopt.adapters import FiLM, OutputAffine, adapt
from metricopt.data.dataset import Examples
from metricopt.metrics import mcr
from metricopt.search.starts import input_start
from metricopt.task.input_statistics import has_statistics, with_statistics_of
from metricopt.task.oracle import Oracle
from metricopt.task.supervised import SupervisedTask


def rows(count, *, seed=0, scale=1.0, offset=0.0):
    draw = torch.Generator().manual_seed(seed)
    clean = torch.randn(count, 6, generator=draw)
    return Examples(scale * clean + offset, (clean[:, 0] > 0).long() + (clean[:, 1] > 0).long())


def net(*, norm=True):
    torch.manual_seed(0)
    layers = nn.Linear(6, 24), nn.BatchNorm1d(24) if norm else nn.LayerNorm(24), nn.ReLU(), nn.Linear(24, 3)
    return nn.Sequential(*layers)


@pytest.fixture(scope="module")
def trained():
    data, network = rows(2000), net()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(150):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(data.inputs), data.targets).backward()
        optimizer.step()
    return network.eval()


def task_of(network, search):
    model = adapt(network, FiLM(dim=24) + OutputAffine(), seed=0, example=search.inputs[:2])
    return SupervisedTask(model, metric=mcr(), train=rows(500), search=search)


def test_statistics_are_the_means_and_variances_of_the_inputs_layer_by_layer(trained):
    inputs = rows(300, scale=2.0, offset=1.0).inputs
    moved = with_statistics_of(trained, [inputs[:150], inputs[150:]])
    assert not moved.training
    hidden = trained[0](inputs)
    torch.testing.assert_close(moved[1].running_mean, hidden.mean(0), atol=1e-5, rtol=1e-5)
    halves = (hidden[:150].var(0) + hidden[150:].var(0)) / 2
    torch.testing.assert_close(moved[1].running_var, halves, atol=1e-5, rtol=1e-5)
    assert not torch.equal(trained[1].running_mean, moved[1].running_mean)  # the original stays as it was


@pytest.mark.parametrize("without", [net(norm=False), nn.BatchNorm1d(6, track_running_stats=False)])
def test_a_network_without_such_statistics_has_none_to_replace(without):
    assert not has_statistics(without)
    if isinstance(without, nn.Sequential):
        assert input_start(task_of(without, rows(200)).probe(), rows=200).shape[0] == 0


def test_a_start_from_inputs_undoes_a_change_of_their_scale_without_labels(trained):
    search = rows(1000, seed=1, scale=1.5, offset=1.0)
    task = task_of(trained, search)
    start = input_start(task.probe(), rows=1000)
    before, after = task.costs(torch.cat([torch.zeros(1, task.dim), start]))
    clean = task_of(trained, rows(1000, seed=1)).costs(torch.zeros(1, task.dim))[0]
    assert float(before - clean) > 0.15  # what the change costs
    assert float(before - after) > 0.5 * float(before - clean)


def test_too_few_rows_give_no_statistics(trained):
    assert task_of(trained, rows(60)).probe().shown_by_inputs(rows=1000) is None


@pytest.mark.parametrize("asked", [True, False], ids=["answered now", "answered before"])
def test_what_the_metric_was_shown_is_shown_again(trained, asked):
    oracle = Oracle(task_of(trained, rows(500)))
    phi = 0.3 * torch.randn(4, oracle.dim, generator=torch.Generator().manual_seed(0))
    if asked:
        oracle.observe(phi)
    found = oracle.shown(phi, rows=100)
    torch.testing.assert_close(found, oracle.probe.shown(phi, rows=100), atol=1e-5, rtol=1e-5)
    oracle.observe(phi)
    assert torch.equal(oracle.shown(phi, rows=100), found)
