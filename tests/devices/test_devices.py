"""Models on another device than the CPU: on a fake one everywhere, on real ones where there are any."""

import importlib.util
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import metricopt as mo
from metricopt.core.errors import AdapterError
from metricopt.losses import cross_entropy

HERE = Path(__file__).parent
_SPEC = importlib.util.spec_from_file_location("journeys", HERE / "journeys.py")
assert _SPEC is not None and _SPEC.loader is not None
journeys = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(journeys)

REAL = [
    name for name, there in (("cuda", torch.cuda.is_available()), ("mps", torch.backends.mps.is_available())) if there
]


@pytest.fixture(scope="module")
def found():
    # In a process of its own: a device is registered for good. With one thread, so that sums have one order.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, str(HERE / "journeys.py")]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize("journey", journeys.JOURNEYS)
def test_a_model_on_another_device_gives_the_numbers_of_one_on_the_cpu(found, journey):
    assert found["fake"][journey].keys() == found["cpu"][journey].keys()
    for name, numbers in found["cpu"][journey].items():
        # Convolutions elsewhere differ in last bits, by which the search soon chooses between candidates: what comes
        # before, starts and first questions, agrees. Guided steps are as long wherever a value function is flat, and
        # its last bits say where to.
        chosen = (journey, name) in (("convnet", "proposal"), ("stages", "phi"))
        same = 0 if chosen else 8 if journey == "convnet" else len(numbers)
        there, here = found["fake"][journey][name][:same], numbers[:same]
        assert there == pytest.approx(here, rel=1e-4, abs=1e-6, nan_ok=True), name


@pytest.mark.skipif(not REAL, reason="no device but the CPU")
@pytest.mark.filterwarnings("ignore::metricopt.core.errors.FlatValueWarning")
@pytest.mark.parametrize("journey", journeys.JOURNEYS)
@pytest.mark.parametrize("device", REAL)
def test_every_way_through_the_library_works_on_real_devices(device, journey):
    numbers = journeys.JOURNEYS[journey](device)
    assert all(math.isfinite(number) for each in numbers.values() for number in each)


def test_a_float64_network_stays_float64_and_so_do_its_data():
    net = journeys.filled(nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))).double()
    seen = set()

    def loss(outputs, targets):
        seen.update((outputs.dtype, targets.dtype))
        return cross_entropy(outputs, targets)

    (x, y), (x_val, y_val) = journeys.table(120, 1), journeys.table(200, 2)
    train, val = (x.double().numpy(), y.double()), (x_val.double(), y_val.double())
    result = mo.optimize(net, loss=loss, metric="accuracy", train=train, val=val, queries=15, recipe=journeys.QUICK)
    assert seen == {torch.float64}
    assert (result.model.phi.dtype, result.proposal.dtype) == (torch.float64, torch.float32)
    torch.testing.assert_close(result.merge()(x.double()), result.model(x.double()))


def test_the_same_network_in_float64_finds_what_it_finds_in_float32():
    plain = journeys.filled(nn.Linear(6, 1))
    ends = []
    for net in (plain, journeys.filled(nn.Linear(6, 1)).double()):
        model = mo.adapt(net, mo.OutputAffine())
        data = mo.SupervisedTask(
            model,
            loss=cross_entropy,
            metric=mo.metrics.mcr(),
            train=journeys.Examples(*journeys.table(80, 1)),
            search=journeys.Examples(*journeys.table(60, 2)),
        )
        phi = torch.ones(1, data.dim, requires_grad=True)
        losses = data.loss(phi, next(data.batches(1, torch.Generator().manual_seed(0))))
        (slope,) = torch.autograd.grad(losses.sum(), phi)
        assert losses.dtype == slope.dtype == torch.float32
        ends.append(torch.cat([losses.detach(), slope[0], data.probe().directions(torch.zeros(2))[0]]))
    torch.testing.assert_close(ends[0], ends[1])


def test_a_default_device_other_than_the_cpu_is_refused_before_any_query():
    x, y = journeys.table(60, 1)
    net = nn.Linear(6, 1)
    with torch.device("meta"), pytest.raises(AdapterError, match="torch's default device is meta; expected cpu"):
        mo.optimize(net, loss=cross_entropy, metric="f1", train=(x, y), val=(x, y))
