"""Ways through the library with a model on some device, each giving numbers that no device may change.

As a script it runs all of them on the CPU and on the fake device and prints their numbers as JSON.
"""

import json
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

import metricopt as mo
from metricopt.adapters.graph.cache import PrefixCache
from metricopt.data.dataset import Examples
from metricopt.losses import cross_entropy
from metricopt.paper.guided import Estimator
from metricopt.paper.settings import Stages
from metricopt.paper.stages import finetune, learn_value_function
from metricopt.paper.training import Training
from metricopt.search import Recipe
from metricopt.task.supervised import SupervisedTask
from metricopt_lab.networks import TabularMLP
from metricopt_lab.problems.problem import Problem
from metricopt_lab.rivals import BASELINES
from metricopt_lab.rivals.descent import label_batches, loss_path

QUICK = Recipe(start_steps=20, candidates=40, rows=50)
Numbers = dict[str, list[float]]


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def filled(net: nn.Module) -> nn.Module:
    for i, parameter in enumerate(net.parameters()):
        parameter.data = 0.4 * numbers(*parameter.shape, seed=i)
    return net.eval()


def table(rows: int, seed: int) -> tuple[Tensor, Tensor]:
    x = numbers(rows, 6, seed=seed)
    return x, (x[:, 0] + 0.5 * numbers(rows, seed=seed + 50) > 0.7).long()


def images(rows: int, seed: int) -> tuple[Tensor, Tensor]:
    x = numbers(rows, 1, 8, 8, seed=seed)
    return x, (x.mean((1, 2, 3)) > 0).long() + (x[:, 0, 0, 0] > 1).long()


class Jumpy(nn.Module):
    """Control flow that depends on data: it cannot be traced, so inputs go to its device as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.first(x))
        return self.last(h.relu() if bool(h.abs().max() > 0) else h)


def mlp(device: str) -> Numbers:
    """The front door with constraints and everything a result can do; the data are on the CPU."""
    net, train, val, test = filled(TabularMLP(6)).to(device), table(200, 1), table(400, 2), table(200, 3)
    keep = [mo.Constraint("accuracy", at_least=0.3)]
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        result = mo.optimize(
            net, loss=cross_entropy, metric="f1", train=train, val=val, queries=25, recipe=QUICK, keep=keep, run_dir=run
        )
        loaded = mo.load_result(run, net, "f1", example=train[0][:2])
        page = result.report(Path(folder) / "report.html").read_text(encoding="utf-8")
    inputs = test[0].to(device)
    assert {tensor.device.type for tensor in result.merge().parameters()} == {torch.device(device).type}
    assert result.proposal.device.type == "cpu" and "<html" in page
    torch.testing.assert_close(loaded.model(inputs), result.model(inputs))
    torch.testing.assert_close(result.merge()(inputs), result.model(inputs), atol=1e-4, rtol=1e-4)
    seen = result.evaluate(test)
    return {"proposal": result.proposal.tolist(), "held out": [seen.before, seen.after, *seen.interval]}


def convnet(device: str) -> Numbers:
    """Images that are on the device already, truth included, and a loss with class weights there."""
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(96, 3)
    )
    loss = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 1.0, 2.0], device=device))
    train, val = (tuple(part.to(device) for part in images(rows, seed)) for rows, seed in ((120, 1), (200, 2)))
    # Few queries: each choice of the search makes more of a difference in the last bit of a convolution.
    result = mo.optimize(
        filled(net).to(device), loss=loss, metric="macro_f1", train=train, val=val, queries=12, recipe=QUICK
    )
    return {"proposal": result.proposal.tolist(), "values": [query.cost for query in result.ledger.queries]}


def jumpy(device: str) -> Numbers:
    """A network that cannot be cut, and a metric computed on the model itself."""
    right = mo.Metric(lambda model, x, y: float(((model(x)[:, 0] > 0) == y).float().mean()), on="model", goal="max")
    net, train, val = filled(Jumpy()).to(device), table(100, 1), table(200, 2)
    result = mo.optimize(net, loss=cross_entropy, metric=right, train=train, val=val, queries=12, recipe=QUICK)
    return {"values": [query.cost for query in result.ledger.queries]}


def stages(device: str) -> Numbers:
    """The paper's two stages, in groups and with a guided optimizer over a phi on the device."""
    oracle = problem(device).oracle(queries=None)
    task = oracle.task
    assert isinstance(task, SupervisedTask)
    settings = Stages(steps=6, observations=3, rounds=2, workers=2, training=Training(steps=20))
    assert task.forks == (device == "cpu")  # a CUDA device does not work in forked processes
    learnt = learn_value_function(oracle, queries=30, stages=settings)
    ends = [finetune(task, learnt.value, stages=settings, start=start).phi for start in (None, task.model.phi)]
    phi = task.model.phi
    estimators: tuple[Estimator, ...] = ("es", "exact")
    for estimator in estimators:
        optimizer = mo.MetricGuided(torch.optim.SGD([phi], lr=0.1), learnt.value, estimator=estimator)
        batches = task.batches(1, torch.Generator().manual_seed(0))
        for _ in range(3):
            optimizer.zero_grad()
            task.loss(phi[None], next(batches)).sum().backward()
            optimizer.step()
    assert phi.device.type == torch.device(device).type
    return {
        "ends": torch.stack(ends).flatten().tolist(),
        "phi": phi.tolist(),
        "loss": learnt.trajectory.loss[0].tolist(),
    }


def rivals(device: str) -> Numbers:
    """Some baselines, and the labels of the metric's data, judged on another part of the data."""
    found: Numbers = {}
    for name in ("post_shift", "snes"):
        toy = problem(device)
        phi = BASELINES[name].run(toy.oracle(queries=12), queries=12, seed=0).phi
        found[name] = [*phi.tolist(), *toy.costs(phi[None], "test").tolist(), toy.standard_error(resamples=5)]
    task = problem(device).task(labels_visible=True)
    return {**found, "labels": loss_path(task, label_batches(task, 0), steps=10).flatten().tolist()}


def problem(device: str) -> Problem:
    train, search, accept, test = (Examples(*table(rows, seed)) for seed, rows in enumerate((150, 120, 90, 90)))
    return Problem(
        "toy",
        filled(TabularMLP(6)).to(device),
        mo.FiLM(dim=4) + mo.OutputAffine(),
        cross_entropy,
        mo.metrics.mcr(),
        train=train,
        search=search,
        accept=accept,
        test=test,
        sampling="plain",
        batch_size=32,
        notes="made up",
        seed=0,
    )


def small_memory(device: str) -> Numbers:
    """Neither activations nor inputs fit the limit: batch by batch."""
    model = mo.adapt(filled(TabularMLP(6)).to(device), mo.FiLM(dim=4), example=table(2, 0)[0])
    train, search = (Examples(*table(rows, seed)) for rows, seed in ((150, 1), (120, 2)))
    task = SupervisedTask(model, loss=cross_entropy, metric=mo.metrics.mcr(), train=train, search=search, cache=100)
    phi = numbers(3, task.dim).requires_grad_()
    losses = task.loss(phi, next(task.batches(3, torch.Generator().manual_seed(0))))
    losses.sum().backward()
    assert phi.grad is not None and task.cache.bytes_in_memory == 0
    assert task.search_outputs(phi).device.type == "cpu"
    many = Examples(*table(9000, 5))
    forward = PrefixCache(model, memory=0, probe=many.inputs[:16])
    outputs = forward.all_outputs(phi.detach(), many, at_once=4096)  # more than go to a device at once
    return {
        "losses": losses.tolist(),
        "gradient": phi.grad.flatten().tolist(),
        "costs": task.costs(phi).tolist(),
        "outputs": outputs[:, ::500].flatten().tolist(),
    }


JOURNEYS = {each.__name__: each for each in (mlp, convnet, jumpy, stages, rivals, small_memory)}


if __name__ == "__main__":
    import fake_device

    fake_device.register()
    found = {device: {name: run(device) for name, run in JOURNEYS.items()} for device in ("cpu", fake_device.NAME)}
    print(json.dumps(found))
