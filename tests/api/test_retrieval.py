"""Retrieval through the front door: classes apart, bad input before the first query, losses of another library."""

import pytest
import torch
from torch import nn

import metricopt as mo
from metricopt.core.errors import DataError, MetricError, MetricOptError
from metricopt.crossfit import CrossFit, Kind
from metricopt.losses import fast_ap
from metricopt.metrics import Metric, recall_at_k
from metricopt.metrics.resampling import ByQuery

DRAW = torch.Generator().manual_seed(0)


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 10), nn.BatchNorm1d(10), nn.ReLU(), nn.Linear(10, 4)).eval()


def scans(first, count, rows=5, noise=0.4):
    """Rows of some classes; the first two numbers of each say as little of the class as there is noise."""
    classes = torch.arange(first, first + count).repeat_interleave(rows)
    x = torch.randn(count, 6, generator=DRAW).repeat_interleave(rows, 0)
    x = x + 0.4 * torch.randn(len(classes), 6, generator=DRAW)
    x[:, :2] += noise * torch.randn(len(classes), 2, generator=DRAW)
    return x, classes


TRAIN, VAL, HOLDOUT = scans(0, 20), scans(20, 20), scans(40, 20)
OWN = Metric(lambda _classes, z: float(abs(z).mean() % 1), on="embeddings", goal="max", name="own")
QUICK = CrossFit(folds=2, epochs=6, batch=24, rates=(1e-2,), kinds=(Kind(False, 0.0),))


def optimised(network=None, **changed):
    arguments = {
        "loss": fast_ap,
        "metric": recall_at_k(1),
        "train": TRAIN,
        "val": VAL,
        "sampling": mo.PerClass(3),
        "batch_size": 15,
        "queries": 12,
        "recipe": mo.Recipe(start_steps=5, candidates=40),
    }
    return mo.optimize(net() if network is None else network, **(arguments | changed))


def test_val_is_cut_by_class_and_one_call_gives_every_resample():
    result = optimised()
    events = {event["event"]: event for event in result.events}
    assert result.comparison.examples == 40 and result.comparison.resamples == 500
    assert result.ledger.decisions <= 4 * 3 and result.ledger.used == 12
    assert events["result"]["metric"] == "recall@1"


def learnt(**changed):
    """As above, by finetuning the weights."""
    return optimised(recipe=None, **({"effort": QUICK, "val": scans(100, 40, noise=3.0), "batch_size": 24} | changed))


def test_by_default_the_weights_learn_and_unseen_classes_are_found_better():
    scanned = scans(200, 60, noise=3.0)
    result = learnt(effort=CrossFit(folds=2, epochs=20, batch=48, rates=(1e-2,), kinds=(Kind(False, 0.0),)))
    assert result.comparison.rows == "out-of-fold" and result.comparison.examples == 200
    assert result.accepted
    test = result.evaluate(scanned)
    assert test.after > test.before + 0.05
    merged = result.merge()
    assert type(merged) is nn.Sequential
    torch.testing.assert_close(merged(scanned[0]), result.model(scanned[0]))


def test_every_fold_s_gallery_is_a_call_and_counted_as_one():
    calls = []
    whole = recall_at_k(1)

    def counted(targets, embeddings):
        calls.extend([len(targets[0])] * len(embeddings))
        return whole.resampling.scores(targets, embeddings)

    by_query = ByQuery(scores=counted, answerable=whole.resampling.answerable)
    metric = Metric(whole.function, on="embeddings", goal="max", name="counted", resampling=by_query)
    result = learnt(metric=metric)
    assert len(calls) == result.ledger.calls == 2 * (result.ledger.calls - result.ledger.extra)
    assert result.ledger.calls <= result.plan["calls"] and set(calls) == {100}  # of the 200 rows


def test_no_gain_where_there_is_none_and_the_original_comes_back():
    x, y = scans(100, 40)
    result = learnt(val=(torch.randn(x.shape, generator=DRAW), y))
    assert not result.accepted and not result.model.phi.any()


def test_a_constraint_is_asked_about_within_folds_too():
    result = learnt(keep=[mo.Constraint(recall_at_k(5), at_least=0.01)])
    assert [each.holds for each in result.kept] == [True]


def test_too_few_classes_for_folds_of_their_own_leave_the_weights_as_they_are():
    result = learnt(val=scans(100, 7, rows=10), effort=CrossFit(folds=4), queries=4)
    assert result.comparison.rows == "held-out" and result.comparison.examples == 30


def test_losses_and_miners_of_pytorch_metric_learning_serve_as_they_are():
    library = pytest.importorskip("pytorch_metric_learning")
    from pytorch_metric_learning import losses, miners

    triplet, miner = losses.TripletMarginLoss(), miners.MultiSimilarityMiner()
    for loss in (losses.ContrastiveLoss(), lambda z, y: triplet(z, y, miner(z, y))):
        assert optimised(loss=loss, holdout=HOLDOUT).ledger.used == 12
        assert learnt(loss=loss).comparison.rows == "out-of-fold"
    assert library.__version__


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"val": (VAL[0], torch.arange(100) + 100)}, "none of 60 queries has an item of its class"),
        ({"metric": recall_at_k(60)}, "k is 60, but the gallery has 59 items beside the query"),
        ({"val": (VAL[0], VAL[1] + 0.5)}, "expected"),
        ({"val": (VAL[0], VAL[1] - 1)}, "1 of 20 classes of 'val' are also in 'train', such as class 19"),
        ({"holdout": (HOLDOUT[0], HOLDOUT[1] - 1)}, "of 'holdout' are also in 'val'"),
        ({"val": (VAL[0], VAL[1] // 20 * 20 + 100)}, "val has 1 classes; expected at least 4"),
        ({"sampling": mo.PerClass(8)}, "a batch of 15 rows has 1 class of"),
        ({"metric": OWN, "tune": "weights", "recipe": None}, "those of different folds' networks do not compare"),
        ({"metric": recall_at_k(40), "tune": "weights", "recipe": None}, "k is 40, but the gallery has 24 items"),
        ({"val": scans(20, 7), "tune": "weights", "recipe": None}, "val has 7 classes, fewer than two for each of 4"),
    ],
)
def test_bad_input_costs_one_sentence_and_no_query(changed, said):
    ledger = mo.QueryLedger()
    with pytest.raises(MetricOptError, match=said):
        optimised(ledger=ledger, **changed)
    assert ledger.used == 0


def test_zero_and_missing_embeddings_are_told_before_the_first_query():
    zero, missing = net(), net()
    zero[3].weight.data.zero_(), zero[3].bias.data.zero_()
    missing[3].bias.data.fill_(torch.nan)
    ledger = mo.QueryLedger()
    for broken, said in ((zero, "zero embeddings for"), (missing, "NaN or infinite")):
        with pytest.raises((DataError, MetricError), match=said):
            optimised(broken, ledger=ledger)
    assert ledger.used == 0
