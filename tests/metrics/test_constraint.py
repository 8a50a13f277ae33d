import math

import pytest
import torch
from sklearn.metrics import precision_score
from torch import nn

import metricopt as mo
from metricopt.acceptance.judge import Judge
from metricopt.adapters import OutputAffine, adapt
from metricopt.core.errors import MetricError, SuspicionWarning
from metricopt.data.dataset import Examples
from metricopt.losses import cross_entropy
from metricopt.metrics import mcr
from metricopt.metrics.constraint import Constraint

DRAW = torch.Generator().manual_seed(0)
X = torch.randn(9000, 4, generator=DRAW)
Y = (X[:, 0] + 0.7 * X[:, 1] * X[:, 2] + 0.4 * torch.randn(9000, generator=DRAW) > 0.8).long()


def share(hits, all_of):
    return float(hits) / float(all_of) if all_of else 1.0


PRECISION = mo.Metric(lambda y, p: share((y * p).sum(), p.sum()), on="labels", goal="max", name="precision")
RECALL = mo.Metric(lambda y, p: share((y * p).sum(), y.sum()), on="labels", goal="max", name="recall")


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(200):
        optimizer.zero_grad()
        cross_entropy(net(X[:1000]).squeeze(-1), Y[:1000]).backward()
        optimizer.step()
    return net


def optimised(net, *, keep=(), metric=RECALL, **settings):
    return mo.optimize(
        net,
        loss=cross_entropy,
        metric=metric,
        train=(X[:1000], Y[:1000]),
        val=(X[1000:3500], Y[1000:3500]),
        holdout=(X[6000:], Y[6000:]),
        queries=80,
        recipe=mo.Recipe(start_steps=50, candidates=100),
        keep=keep,
        **settings,
    )


def precision_of(result):
    with torch.no_grad():
        return precision_score(Y[3500:6000], (result.model(X[3500:6000]).squeeze(-1) > 0).long(), zero_division=1.0)


@pytest.fixture(scope="module")
def bounded(net):
    return optimised(net, keep=[Constraint(PRECISION, at_least=0.7)])


def test_recall_improves_while_precision_stays_above_its_bound(net, bounded):
    free = optimised(net)
    assert free.accepted and precision_of(free) < 0.6, "without the constraint recall is bought with precision"
    assert bounded.accepted and bounded.comparison.after > bounded.comparison.before + 0.02
    assert precision_of(bounded) >= 0.7
    (kept,) = bounded.kept
    assert kept.holds and kept.text == "precision >= 0.7" and 0.7 <= kept.bound <= kept.after


def test_a_point_that_breaks_the_constraint_is_never_the_best_one(bounded):
    chosen = [query for query in bounded.ledger.queries if query.violation == 0]
    broken = [query for query in bounded.ledger.queries if query.violation > 0]
    assert broken and min(query.cost for query in broken) < min(query.cost for query in chosen)
    # The proposal is among those that keep it: their lowest cost bounds what it can claim.
    assert min(query.kept[0] for query in chosen) >= 0.7


def test_evaluations_of_constraints_are_counted_apart_from_the_queries(bounded):
    assert bounded.ledger.used == 80 and all(len(query.kept) == 1 for query in bounded.ledger.queries)
    assert bounded.ledger.checks == 80 + 1 + 2 * 502 == bounded.to_dict()["constraint_checks"]


def test_a_constraint_that_nothing_keeps_returns_the_original_and_says_why(net):
    with pytest.warns(SuspicionWarning, match="the constraint precision >= 1 fails for the original model"):
        result = optimised(net, keep=[Constraint(PRECISION, at_least=1.0)])
    assert not result.accepted and not result.model.phi.any()
    assert result.to_dict()["after"] == result.comparison.before


def test_constraints_survive_a_resume_with_the_same_bits(net, tmp_path):
    keep = [Constraint(PRECISION, at_least=0.7)]
    first = optimised(net, keep=keep, run_dir=tmp_path)
    lines = (tmp_path / "events.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "events.jsonl").write_bytes(b"".join(lines[:40]))
    again = optimised(net, keep=keep, run_dir=tmp_path, resume=True)
    assert torch.equal(first.proposal, again.proposal) and first.ledger.queries == again.ledger.queries
    assert first.kept == again.kept and first.comparison == again.comparison


def checked(constraint, outputs, truth):
    """The constraint at phi = 0 of a network that passes these outputs on."""
    model = adapt(nn.Identity(), OutputAffine(), example=outputs[:2, None])
    pair = torch.zeros(2, model.dim)
    return Judge(model, Examples(outputs[:, None], truth)).check(constraint, pair)


@pytest.mark.parametrize("share", [0.78, 0.80, 0.82])
def test_the_held_out_bound_is_the_quantile_of_a_binomial(share):
    rows = 400
    right = torch.arange(rows) < round(share * rows)
    truth = torch.arange(rows) % 2
    outputs = torch.where(right, truth * 2.0 - 1, 1 - truth * 2.0)
    kept = checked(Constraint("accuracy", at_least=0.78), outputs, truth)
    assert kept.after == pytest.approx(share)
    assert kept.bound == pytest.approx(share - 1.2816 * math.sqrt(share * (1 - share) / rows), abs=0.004)
    assert kept.holds == (share == 0.82)


def test_an_upper_bound_is_judged_at_the_upper_end():
    truth = torch.arange(200) % 2
    outputs = torch.where(torch.arange(200) < 20, 1 - truth * 2.0, truth * 2.0 - 1)  # 10% wrong
    kept = checked(Constraint(mcr(), at_most=0.2), outputs, truth)
    assert kept.holds and kept.after == pytest.approx(0.1) and 0.11 < kept.bound < 0.15
    assert kept.text == "mcr <= 0.2"


def test_a_violation_is_a_share_of_the_range_and_unknown_counts_as_broken():
    metric = mo.Metric(lambda _y, _p: 0.0, on="labels", goal="min", bounds=(0.0, 10.0), name="wait")
    values = torch.tensor([3.0, 5.0, 9.0, math.nan])
    assert Constraint(metric, at_most=4.0).violation(values).tolist() == pytest.approx([0.0, 0.1, 0.5, 1.0])
    assert Constraint(metric, at_most=4.0).violation(values, margin=2.0).tolist() == pytest.approx([0.1, 0.3, 0.7, 1.0])


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({}, "at_least=None and at_most=None; give one of them"),
        ({"at_least": 0.1, "at_most": 0.2}, "at_least=0.1 and at_most=0.2; give one of them"),
        ({"at_least": 80}, "has the bound 80; expected one between 0 and 1"),
        ({"at_least": math.nan}, "has the bound nan"),
        ({"at_least": 0.8, "confidence": 1.0}, "confidence=1.0; expected 0.5 up to below 1"),
    ],
)
def test_a_constraint_that_makes_no_sense_is_one_sentence(arguments, reason):
    with pytest.raises(MetricError, match=reason):
        Constraint("accuracy", **arguments)
