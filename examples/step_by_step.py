"""The method in its steps, each usable alone: adapt, task, value function, finetuning, and your own loop."""

import torch
from torch import nn

import metricopt as mo
from metricopt.data.dataset import Examples
from metricopt.losses import cross_entropy


def data(count: int, seed: int) -> Examples:
    """Two classes, one of them rare."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 6, generator=generator)
    noise = torch.randn(count, generator=generator)
    return Examples(inputs, (inputs[:, 0] + inputs[:, 1] * inputs[:, 2] + noise > 2).long())


def main() -> dict[str, float]:
    """F1 on test data of the original, after finetuning, and after a loop of one's own."""
    train, search, test = data(4000, 0), data(3000, 1), data(6000, 2)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(200):
        optimizer.zero_grad()
        cross_entropy(net(train.inputs), train.targets).backward()
        optimizer.step()

    model = mo.adapt(net, mo.DynamicBias(dim=8) + mo.OutputAffine())  # the frozen net and one vector, model.phi
    metric = mo.metrics.METRICS["f1"]()
    task = mo.SupervisedTask(model, loss=cross_entropy, metric=metric, train=train, search=search)

    stages = mo.Stages(rounds=3)  # with fewer, one seed in six of this small problem ended below the original
    oracle = mo.Oracle(task)  # asks the metric, and counts
    learnt = mo.learn_value_function(oracle, queries=300, stages=stages)  # stage 1: the metric is queried here only
    print(f"value function: {learnt.health}")
    finetuned = mo.finetune(task, learnt.value, stages=stages).phi  # stage 2: led by the value function

    # The same inside a loop of your own: MetricGuided is a torch optimizer around any other one.
    phi = nn.Parameter(torch.zeros(1, task.dim))
    guided = mo.MetricGuided(torch.optim.Adam([phi], lr=0.05), learnt.value)
    batches = task.batches(1, torch.Generator().manual_seed(0))
    for _ in range(50):
        guided.zero_grad()
        task.loss(phi, next(batches)).sum().backward()
        guided.step()

    points = {"original": torch.zeros(task.dim), "finetune": finetuned, "own loop": phi.detach()[0]}
    values = {name: metric.value(task.outputs(p[None], test.inputs)[0], test.targets) for name, p in points.items()}
    for name, value in values.items():
        print(f"F1 on test data, {name}: {value:.4f}")
    print(f"{oracle.ledger.used} metric queries")
    return values


if __name__ == "__main__":
    main()
