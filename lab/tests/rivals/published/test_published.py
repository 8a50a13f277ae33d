"""Published rivals: an honest count of queries, and a toy problem of each one's own kind with a known optimum."""

import math

import pytest
import torch
from torch.distributions import Normal

from metricopt.adapters import OutputAffine, Parameters, adapt
from metricopt.core.errors import DataError
from metricopt.core.seeding import stream
from metricopt.data.dataset import Examples
from metricopt.losses import blackbox_rank
from metricopt.metrics import Metric
from metricopt.run.ledger import QueryLedger
from metricopt.task.oracle import Oracle
from metricopt.task.supervised import SupervisedTask
from metricopt_lab.problems import QuadraticTask
from metricopt_lab.rivals.published import PUBLISHED, ala, moew, rambo, setwise
from metricopt_lab.rivals.published.lesson import Pace, Rows

QUICK = Pace(steps=4, lr=0.05)
DEAR = 10.0  # what a missed positive costs, against 1 for a false alarm


class Counted:
    """Cost of mistakes, a missed positive counting tenfold, over the worst there is; it counts its calls."""

    def __init__(self):
        self.calls = 0

    def __call__(self, truth, labels):
        self.calls += 1
        missed, alarms = ((truth == 1) & (labels == 0)).mean(), ((truth == 0) & (labels == 1)).mean()
        return float(DEAR * missed + alarms) * 2 / (DEAR + 1)


def two_bells(seed, rows=4000):
    """x of class 1 around 1 and of class 0 around -1, both with deviation 1: the log odds are 2 x."""
    targets = torch.arange(rows) % 2
    x = torch.randn(rows, generator=stream(seed, "bells")) + 2.0 * targets - 1
    return Examples(x[:, None], targets)


def lowest_cost():
    """Of the threshold -log(10) / 2, where ten times the density of class 1 is that of class 0."""
    bell, threshold = Normal(0.0, 1.0), torch.tensor(-math.log(DEAR) / 2)
    missed, alarms = bell.cdf(threshold - 1), 1 - bell.cdf(threshold + 1)
    return float((DEAR * missed + alarms) / (DEAR + 1))


def oracle_of(queries, *, metric=None, adapter=None, labels_visible=True):
    net = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Flatten(0))
    net[0].weight.data.fill_(2.0)
    net[0].bias.data.fill_(0.0)
    metric = Metric(Counted() if metric is None else metric, on="labels", goal="min", bounds=(0, 1), name="dear")
    model = adapt(net, OutputAffine() if adapter is None else adapter)
    task = SupervisedTask(
        model, metric=metric, train=two_bells(1), search=two_bells(2), batch_size=200, labels_visible=labels_visible
    )
    return Oracle(task, QueryLedger(budget=queries))


def test_the_four_rivals_are_here_and_say_what_they_are():
    assert set(PUBLISHED) == {"moew", "ala", "sl", "rambo"}
    assert all(one.about.endswith(".") and one.name == name for name, one in PUBLISHED.items())
    assert [name for name, one in PUBLISHED.items() if one.needs_labels] == ["ala"]


@pytest.fixture
def quick(monkeypatch):
    """Where only the count matters, few steps do."""
    monkeypatch.setattr(moew, "CODE_STEPS", 5)
    for module in (moew, rambo, setwise):
        monkeypatch.setattr(module, "PACE", QUICK)
    monkeypatch.setattr(setwise, "FIT_STEPS", 3)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("adapter", [OutputAffine(), Parameters("*", dim=None)], ids=["phi", "weights"])
@pytest.mark.parametrize("name", PUBLISHED)
def test_every_call_of_the_metric_is_counted_and_the_seed_decides_all(name, adapter):
    found = []
    for _ in range(2):
        counted = Counted()
        oracle = oracle_of(27, metric=counted, adapter=adapter)
        before = torch.random.get_rng_state()
        found.append(PUBLISHED[name].run(oracle, queries=27, seed=3).phi)
        assert torch.equal(before, torch.random.get_rng_state())
        assert counted.calls == oracle.ledger.used <= 27
    assert torch.equal(*found)
    assert found[0].isfinite().all()


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", PUBLISHED)
def test_a_pace_that_is_given_is_kept(name):
    still = PUBLISHED[name].run(oracle_of(27), queries=27, seed=3, pace=Pace(steps=5, lr=0.0)).phi
    fast = PUBLISHED[name].run(oracle_of(27), queries=27, seed=3, pace=Pace(steps=5, lr=0.2)).phi
    assert not still.any()
    assert fast.any()


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("queries", [0, 1, 2, 3])
@pytest.mark.parametrize("name", PUBLISHED)
def test_a_budget_of_next_to_nothing_is_kept(name, queries):
    oracle = oracle_of(queries)
    outcome = PUBLISHED[name].run(oracle, queries=queries, seed=0)
    assert oracle.ledger.used <= queries
    assert outcome.at(0).shape == outcome.phi.shape == (2,)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_task_without_rows_is_refused_in_one_sentence(name):
    with pytest.raises(DataError, match=r"published rival was given a QuadraticTask; expected a SupervisedTask"):
        PUBLISHED[name].run(Oracle(QuadraticTask()), queries=5, seed=0)


def test_hidden_labels_are_not_looked_at():
    with pytest.raises(DataError, match=r"labels are hidden; expected .* labels_visible=True"):
        PUBLISHED["ala"].run(oracle_of(10, labels_visible=False), queries=10, seed=0)


@pytest.mark.parametrize(("name", "queries"), [("moew", 61), ("sl", 201)])
def test_where_mistakes_cost_differently_the_best_threshold_is_found(name, queries):
    oracle = oracle_of(queries)
    phi = PUBLISHED[name].run(oracle, queries=queries, seed=0).phi
    before, after = oracle.task.costs(torch.stack([torch.zeros(2), phi])).tolist()
    assert before > lowest_cost() + 0.03  # cross-entropy is at its own optimum there, and stays
    assert after < lowest_cost() + 0.01


def test_ala_aligns_the_loss_of_a_crooked_network_until_hardly_an_error_is_left():
    inputs = torch.randn(1000, 3, generator=stream(0, "inputs"))
    net = torch.nn.Linear(3, 3)
    net.weight.data.copy_(torch.diag(torch.tensor([1.0, 0.4, 2.0])))
    net.bias.data.copy_(torch.tensor([0.5, -0.5, 0.0]))
    parts = [Examples(inputs[i::2], inputs[i::2].argmax(1)) for i in (0, 1)]  # no error if all scales are alike
    metric = Metric(lambda truth, labels: float((truth != labels).mean()), on="labels", goal="min", name="errors")
    task = SupervisedTask(
        adapt(net, OutputAffine()), metric=metric, train=parts[0], search=parts[1], batch_size=100, labels_visible=True
    )
    phi = PUBLISHED["ala"].run(Oracle(task), queries=250, seed=0).phi
    before, after = task.costs(torch.stack([torch.zeros(6), phi])).tolist()
    assert before > 0.25
    assert after < 0.03


def test_moew_weighs_examples_as_its_formula_does():
    embedding, alpha = torch.rand(5, 3, generator=stream(0)), torch.randn(1, 3, generator=stream(1))
    outputs, targets = torch.randn(1, 4, generator=stream(2)), torch.tensor([[0, 1, 1, 0]])
    rows = Rows(torch.tensor([[4, 0, 2, 1]]), None, targets)
    weights = [1 / (1 + math.exp(-float(alpha[0] @ embedding[row]))) for row in rows.numbers[0].tolist()]
    losses = [
        math.log1p(math.exp(-z if y else z)) for z, y in zip(outputs[0].tolist(), targets[0].tolist(), strict=True)
    ]
    wanted = sum(w * loss for w, loss in zip(weights, losses, strict=True)) / sum(weights)
    found = moew.weighted_loss(outputs, rows, alphas=alpha, embedding=embedding)
    assert float(found) == pytest.approx(wanted, rel=1e-5)


def test_a_hallucinated_pick_is_not_picked_again():
    ball = moew.Ball(2, radius=1.0, seed=0)
    points = ball.ask(20)
    ball.tell(points, (points - torch.tensor([0.5, 0.0])).square().sum(1))
    picks = ball.ask(10)
    assert len({tuple(pick.tolist()) for pick in picks}) == 10
    assert picks.norm(dim=1).max() <= 1


def plain_ranks(scores):
    return [1 + sum(other > mine or (other == mine and at < i) for at, other in enumerate(scores))
            for i, mine in enumerate(scores)]  # fmt: skip


def test_the_gradient_of_a_rank_loss_is_the_difference_of_ranks_here_and_where_it_points_to():
    logits = torch.tensor([[2.0, 1.0, 0.5], [0.3, 0.2, 1.0]], requires_grad=True)
    targets = torch.tensor([1, 2])
    rambo.error_by_ranks(logits, targets).backward()
    assert logits.grad is not None
    lam, half = rambo.LAMBDA * 3, rambo.MARGIN / 2
    for row, true, found in zip(logits.tolist(), targets.tolist(), logits.grad.tolist(), strict=True):
        pushed = [score - half if at == true else score + half for at, score in enumerate(row)]
        ranks = plain_ranks(pushed)
        # d mean log(1 + (r - 1)) / d r of the true class alone
        slope = [1 / ranks[true] / 2 if at == true else 0.0 for at in range(3)]
        moved = plain_ranks([score + lam * g for score, g in zip(pushed, slope, strict=True)])
        wanted = [(there - here) / lam for there, here in zip(moved, ranks, strict=True)]
        assert found == pytest.approx(wanted, abs=1e-6)


def test_average_precision_by_ranks_and_its_gradient_agree_with_plain_loops():
    scores = torch.tensor([0.9, 0.1, 0.4, 0.6, 0.5], requires_grad=True)
    targets = torch.tensor([0, 1, 1, 0, 1])
    loss = rambo.precision_by_ranks(scores, targets, scores=rambo.raw_logits)
    loss.backward()
    n, half = 5, rambo.MARGIN / 2
    pushed = [s - half if y else s + half for s, y in zip(scores.tolist(), targets.tolist(), strict=True)]
    every = plain_ranks(pushed)
    own = plain_ranks([s if y else -math.inf for s, y in zip(pushed, targets.tolist(), strict=True)])
    positives = [at for at in range(n) if targets[at] == 1]
    assert loss.item() == pytest.approx(1 - sum(own[at] / every[at] for at in positives) / 3)
    lam = rambo.LAMBDA * n

    def interpolated(points, ranks, slope):
        there = plain_ranks([s + lam * g for s, g in zip(points, slope, strict=True)])
        return [(b - a) / lam for a, b in zip(ranks, there, strict=True)]

    slope = [own[at] / every[at] ** 2 / 3 if at in positives else 0.0 for at in range(n)]
    wanted = interpolated(pushed, every, slope)  # ranks among positives are held constant
    assert scores.grad is not None
    assert scores.grad.tolist() == pytest.approx(wanted, abs=1e-6)


def test_ranks_of_the_library_are_those_of_plain_loops():
    scores = torch.randn(20, generator=stream(0))
    assert blackbox_rank(scores, 1.0).tolist() == plain_ranks(scores.tolist())


def test_the_confusion_of_classes_is_a_mean_of_logarithms():
    oracle = oracle_of(0)
    found = ala.confusion(ala.Lesson(oracle), torch.zeros(1, 2))
    data = oracle.task.search
    ones = data.inputs[data.targets == 1].squeeze(1)
    wanted = [float(torch.nn.functional.softplus(sign * 2 * ones).mean()) for sign in (1, -1)]
    assert found[1].tolist() == pytest.approx(wanted, rel=1e-4)
