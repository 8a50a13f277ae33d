"""Retrieval through the front door: classes apart, bad input before the first query, losses of another library."""

import pytest
import torch
from torch import nn

import metricopt as mo
from metricopt.core.errors import DataError, MetricError, MetricOptError
from metricopt.losses import fast_ap
from metricopt.metrics import recall_at_k

DRAW = torch.Generator().manual_seed(0)


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 10), nn.BatchNorm1d(10), nn.ReLU(), nn.Linear(10, 4)).eval()


def scans(first, count, rows=5):
    classes = torch.arange(first, first + count).repeat_interleave(rows)
    centres = torch.randn(count, 6, generator=DRAW).repeat_interleave(rows, 0)
    return centres + 0.4 * torch.randn(len(classes), 6, generator=DRAW), classes


TRAIN, VAL, HOLDOUT = scans(0, 20), scans(20, 20), scans(40, 20)


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


def test_losses_and_miners_of_pytorch_metric_learning_serve_as_they_are():
    library = pytest.importorskip("pytorch_metric_learning")
    from pytorch_metric_learning import losses, miners

    triplet, miner = losses.TripletMarginLoss(), miners.MultiSimilarityMiner()
    for loss in (losses.ContrastiveLoss(), lambda z, y: triplet(z, y, miner(z, y))):
        assert optimised(loss=loss, holdout=HOLDOUT).ledger.used == 12
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
        ({"tune": "weights", "recipe": None}, "those of different folds' networks do not compare"),
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
