"""Bad input gets one clear sentence that names what was found and what to do, and costs no metric query."""

import math
import warnings

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score
from torch import nn
from torch.utils.data import TensorDataset

import metricopt as mo
from metricopt.core.errors import (
    AdapterError,
    BudgetError,
    DataError,
    FileFormatError,
    MetricError,
    MetricFailureWarning,
    MetricOptError,
    ObservationError,
    UnknownNameError,
)
from metricopt.losses import cross_entropy

DRAW = torch.Generator().manual_seed(0)
X = torch.randn(400, 4, generator=DRAW)
Y = (X[:, 0] + 0.3 * torch.randn(400, generator=DRAW) > 0.5).long()
BROKEN = X.clone()
BROKEN[[3, 160, 170], 1] = torch.tensor([math.nan, math.inf, math.nan])


def mlp(norm=True):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8) if norm else nn.Identity(), nn.ReLU(), nn.Linear(8, 1))


def rows(first, last=None):
    return X[first:last], Y[first:last]


def optimised(net=None, **changed):
    """A run that would do well if it were not for what is changed."""
    arguments = {
        "loss": cross_entropy,
        "metric": "f1",
        "train": rows(0, 150),
        "val": rows(150),
        "queries": 20,
        "recipe": mo.Recipe(start_steps=5, candidates=40),
    }
    return mo.optimize(mlp() if net is None else net, **(arguments | changed))


def of_labels(function, name="mine"):
    return mo.Metric(function, on="labels", goal="max", name=name)


def raising(y_true, labels):
    raise KeyError("pos_label")


def each_row(outputs, targets):
    return nn.functional.binary_cross_entropy_with_logits(outputs.squeeze(-1), targets.float(), reduction="none")


APART = "pass different rows (torch.utils.data.random_split gives disjoint sets)"
AT_ZERO = "the metric failed at phi = 0, the original model, 2 times of 2; expected a number: "
KINDS = "Linear, Conv1d, Conv2d, Conv3d, BatchNorm1d, BatchNorm2d, BatchNorm3d, SyncBatchNorm, LayerNorm, GroupNorm"
PAIRS = (
    "expected (inputs, targets), (inputs, targets, groups), a mapping with 'labels', a torch Dataset or a DataLoader"
)

METRICS = {
    "no goal": (
        lambda: optimised(metric=mo.Metric(f1_score, on="labels")),
        MetricError,
        "metric 'f1_score' was given without 'goal', which is never guessed: write Metric(..., on='labels', goal='max')"
        " with goal one of max, min",
    ),
    "a bare function": (
        lambda: optimised(metric=f1_score),
        MetricError,
        "metric 'f1_score' was given without 'on', which is never guessed: write Metric(..., on='labels', goal='max') "
        "with on one of labels, scores, values, logits, embeddings, outputs, model",
    ),
    "another goal": (
        lambda: optimised(metric=mo.Metric(f1_score, on="labels", goal="up")),
        MetricError,
        "metric 'f1_score' has goal='up'; choose one of 'max', 'min'",
    ),
    "out of its bounds": (
        lambda: optimised(metric=of_labels(lambda *_: 7.0)),
        MetricError,
        AT_ZERO
        + "metric 'mine' gave 7, outside its bounds (0, 1): state its true range with Metric(..., bounds=(low, high)), "
        "or bounds=None if it has none",
    ),
    "NaN": (
        lambda: optimised(metric=of_labels(lambda *_: math.nan)),
        MetricError,
        AT_ZERO + "metric 'mine' gave nan; a finite number is expected: check that it is defined on these data (every "
        "class present?) or handle the case in its function",
    ),
    "raising": (
        lambda: optimised(metric=of_labels(raising)),
        MetricError,
        AT_ZERO + "metric 'mine' (on='labels') raised KeyError: 'pos_label'; a number is expected for any prediction: "
        "handle this case in its function or choose another 'on'",
    ),
    "raising where weights are finetuned": (
        lambda: optimised(metric=of_labels(raising), recipe=None),
        MetricError,
        "the metric failed at phi = 0, the original model; expected a number: metric 'mine' (on='labels') raised "
        "KeyError: 'pos_label'; a number is expected for any prediction: handle this case in its function or choose "
        "another 'on'",
    ),
    "no number": (
        lambda: optimised(metric=of_labels(lambda *_: "0.5")),
        MetricError,
        AT_ZERO + "metric 'mine' returned '0.5'; a single number is expected: return a float",
    ),
    "an unknown name": (
        lambda: optimised(metric="acuracy"),
        UnknownNameError,
        "there is no metric named 'acuracy'; did you mean 'accuracy'?",
    ),
    "a constraint by name": (
        lambda: optimised(keep=["accuracy"]),
        MetricError,
        "keep is ['accuracy']; expected a list of constraints: pass [metricopt.Constraint('accuracy', at_least=0.9)]",
    ),
}

DATA = {
    "targets too short": (
        lambda: optimised(train=(X[:150], Y[:149])),
        DataError,
        "train: targets are int64 (149,) for 150 inputs; expected one row an input",
    ),
    "one target": (
        lambda: optimised(val=(X[150:], torch.tensor(1))),
        DataError,
        "val: targets are int64 () for 250 inputs; expected one row an input",
    ),
    "targets of another shape": (
        lambda: optimised(val=(X[150:], Y[150:, None])),
        DataError,
        "targets of val are int64 (250, 1), those of train int64 (150,); expected rows of one kind: encode both alike",
    ),
    "more targets than outputs": (
        lambda: optimised(train=(X[:150], Y[:150, None].repeat(1, 3)), val=(X[150:], Y[150:, None].repeat(1, 3))),
        DataError,
        "outputs (150, 1) and targets (150, 3) do not go together; expected (n,), (n, 1) or (n, classes) and (n,): "
        "give one class number for each example",
    ),
    "other inputs": (
        lambda: optimised(val=(X[150:, :3], Y[150:])),
        DataError,
        "inputs of val are float32 (250, 3), those of train float32 (150, 4); expected rows of one kind: encode both "
        "alike",
    ),
    "inputs the net does not take": (
        lambda: optimised(train=(X[:150, :3], Y[:150]), val=(X[150:, :3], Y[150:])),
        AdapterError,
        "the network raised RuntimeError on inputs float32 (2, 3): mat1 and mat2 shapes cannot be multiplied "
        "(2x3 and 4x8); expected an output: pass inputs of the kind it was trained on, or say by call= how it is "
        "called with them",
    ),
    "val is train": (
        lambda: optimised(val=rows(0, 150)),
        DataError,
        f"'val' and 'train' are the same rows in memory; expected sets without a common row: {APART}",
    ),
    "val is a slice of train": (
        lambda: optimised(val=rows(40, 120)),
        DataError,
        f"'val' and 'train' are the same rows in memory; expected sets without a common row: {APART}",
    ),
    "val is a copy of some of train": (
        lambda: optimised(val=(X[40:120].clone(), Y[40:120].clone())),
        DataError,
        "80 of 80 rows of 'val' are also in 'train'; expected about 0, as rows repeat within 'train': pass rows that "
        "'train' does not hold (torch.utils.data.random_split gives disjoint sets)",
    ),
    "val is train in another form": (
        lambda: optimised(val=TensorDataset(*rows(0, 150))),
        DataError,
        f"'val' and 'train' are the same rows in memory; expected sets without a common row: {APART}",
    ),
    "holdout is val": (
        lambda: optimised(holdout=rows(150)),
        DataError,
        f"'holdout' and 'val' are the same rows in memory; expected sets without a common row: {APART}",
    ),
    "holdout is train": (
        lambda: optimised(holdout=rows(0, 150)),
        DataError,
        f"'holdout' and 'train' are the same rows in memory; expected sets without a common row: {APART}",
    ),
    "empty train": (
        lambda: optimised(train=rows(0, 0)),
        DataError,
        "train: there are no examples; expected at least one row",
    ),
    "empty val": (
        lambda: optimised(val=rows(400)),
        DataError,
        "val: there are no examples; expected at least one row",
    ),
    "val too small": (
        lambda: optimised(val=rows(150, 160)),
        DataError,
        "val has 10 rows; expected at least 20, or a holdout of its own: pass more rows",
    ),
    "inputs alone": (lambda: optimised(train=X[:150]), DataError, f"train is a Tensor; {PAIRS}"),
    "nothing": (
        lambda: optimised(val=None),
        DataError,
        "val is None; expected data to ask the metric about: pass train= and val=, or datamodule=",
    ),
    "NaN in train": (
        lambda: optimised(train=(BROKEN[:150], Y[:150])),
        DataError,
        "inputs of train hold NaN or infinity in 1 of 150 rows, the first of them row 3; expected numbers: drop or "
        "fill in these rows",
    ),
    "NaN in val": (
        lambda: optimised(val=(BROKEN[150:], Y[150:])),
        DataError,
        "inputs of val hold NaN or infinity in 2 of 250 rows, the first of them row 10; expected numbers: drop or "
        "fill in these rows",
    ),
    "data without numbers": (
        lambda: optimised(train=(X[:150].to("meta"), Y[:150])),
        DataError,
        "inputs of train are on the meta device, which holds no numbers; expected data: pass tensors of another device",
    ),
    "an unknown sampling": (
        lambda: optimised(sampling="balance"),
        UnknownNameError,
        "sampling is 'balance'; expected 'plain' or 'balanced': did you mean 'balanced'?",
    ),
    "no rows a batch": (
        lambda: optimised(batch_size=0),
        DataError,
        "batch_size is 0; expected at least 1 row a mini-batch",
    ),
}

MODELS = {
    "no layer to modulate": (
        lambda: optimised(nn.Sequential(nn.Flatten(), nn.Softmax(-1))),
        AdapterError,
        "the network has no layer to modulate: DynamicBias needs a Linear; FiLM suits convolutional networks; it has "
        f"none of {KINDS}",
    ),
    "no layer for this adapter": (
        lambda: optimised(mlp(norm=False), adapter=mo.FiLM(dim=4)),
        AdapterError,
        "the network has no layer to modulate: FiLM follows BatchNorm, LayerNorm or GroupNorm, or the layers you name "
        "in FiLM(layers=...); it has '0' (Linear), '3' (Linear)",
    ),
    "no layer of that name": (
        lambda: optimised(adapter=mo.FiLM(dim=4, layers="norm")),
        AdapterError,
        f"no layer of a kind that can be modulated ({KINDS}) is named 'norm'; the network has '0' (Linear), "
        "'1' (BatchNorm1d), '3' (Linear)",
    ),
    "an adapter by name": (
        lambda: optimised(adapter="film"),
        AdapterError,
        "adapter is 'film'; expected an Adapter: pass one such as metricopt.FiLM(dim=32)",
    ),
    "no weights": (
        lambda: optimised(mlp().to("meta")),
        AdapterError,
        "the network is on the meta device, where it has shapes but no weights; load them first",
    ),
    "weights of half precision": (
        lambda: optimised(mlp().half(), tune="weights", recipe=None),
        MetricError,
        "tune is 'weights', but the network is of torch.float16, too coarse for small steps of its weights; expected "
        "tune='adapter', or leave it out",
    ),
    "no module": (
        lambda: optimised(lambda x: x),
        AdapterError,
        "net is a function; expected a torch.nn.Module: pass the pre-trained network",
    ),
    "an adapted net": (
        lambda: optimised(mo.adapt(mlp(), mo.OutputAffine())),
        AdapterError,
        "the network is adapted already; adapt(model.net, model.spec + another) has both adapters",
    ),
    "a loss by name": (
        lambda: optimised(loss="cross_entropy"),
        TypeError,
        "loss is 'cross_entropy'; expected a function loss(outputs, targets): metricopt.losses has some",
    ),
    "a loss a row": (
        lambda: optimised(loss=each_row),
        DataError,
        "the loss of 150 training rows is shape (150,); expected a tensor with one finite number: average over the "
        "rows and check the targets",
    ),
    "a loss that does not fit": (
        lambda: optimised(loss=nn.functional.cross_entropy),
        DataError,
        "the loss raised IndexError for outputs float32 (150, 1) and targets int64 (150,): Target 1 is out of bounds."
        "; expected one number: pass targets or a loss that fit",
    ),
    "a loss of NaN": (
        lambda: optimised(loss=lambda outputs, _: outputs.mean() * math.nan),
        DataError,
        "the loss of 150 training rows is tensor(nan); expected a tensor with one finite number: average over the rows "
        "and check the targets",
    ),
    "a net that has diverged": (
        lambda: optimised(diverged()),
        DataError,
        "the network gives NaN or infinite outputs for 150 of 150 training rows; expected finite ones: check its "
        "weights and the scale of the inputs",
    ),
}

PLANS = {
    "no queries": (
        lambda: optimised(queries=0),
        BudgetError,
        "queries is 0; expected a whole number, at least 1: grant the search some",
    ),
    "less than none": (
        lambda: optimised(queries=-3),
        BudgetError,
        "queries is -3; expected a whole number, at least 1: grant the search some",
    ),
    "half a query": (
        lambda: optimised(queries=2.5),
        BudgetError,
        "queries is 2.5; expected a whole number, at least 1: grant the search some",
    ),
    "too few queries for the paper": (
        lambda: optimised(preset="paper", recipe=None, queries=5),
        BudgetError,
        "the paper preset was given 5 metric queries; expected at least 17, for 4 trajectories of 3 observations and 5 "
        "at the end: grant more, or use the default preset",
    ),
    "one observation": (
        lambda: mo.Stages(observations=1),
        ObservationError,
        "1 metric observations in 50 steps; expected between 2 and 50: change observations or steps",
    ),
    "an unknown preset": (
        lambda: optimised(preset="papper"),
        UnknownNameError,
        "preset is 'papper'; expected 'default', 'paper' or 'paper-letter': did you mean 'paper'?",
    ),
    "a recipe by name": (
        lambda: optimised(recipe="default"),
        TypeError,
        "recipe is 'default'; expected a Recipe: pass metricopt.Recipe(...) with what shall differ",
    ),
    "a recipe beside the paper's": (
        lambda: optimised(preset="paper"),
        TypeError,
        "a recipe was given with preset='paper', which has settings of its own; expected one of the two: leave out "
        "either",
    ),
    "a ledger with too little room": (
        lambda: optimised(ledger=mo.QueryLedger(budget=7)),
        BudgetError,
        "the ledger grants 7 more metric queries, but queries is 20; expected as many: grant more, or ask for fewer",
    ),
    "an impossible recipe": (
        lambda: optimised(recipe=mo.Recipe(batch=0)),
        ValueError,
        "batch is 0; expected at least 1: choose a larger one",
    ),
    "less than no failures": (
        lambda: optimised(max_failures=-1),
        BudgetError,
        "max_failures is -1; expected a whole number, at least 0: 0 stops at the first failed query",
    ),
    "resumed from nowhere": (
        lambda: optimised(resume=True),
        FileFormatError,
        "resume is True without a run_dir; expected the folder of a run: pass it as run_dir",
    ),
}

ALL = METRICS | DATA | MODELS | PLANS


def diverged():
    net = mlp()
    net[3].weight.data.fill_(math.nan)
    return net


@pytest.mark.parametrize("case", ALL)
def test_bad_input_gets_one_clear_sentence(case):
    attempt, error, sentence = ALL[case]
    with warnings.catch_warnings(), pytest.raises(error) as caught:
        warnings.simplefilter("ignore", MetricFailureWarning)
        attempt()
    assert str(caught.value) == sentence
    assert "\n" not in sentence and len(sentence) < 300


@pytest.mark.parametrize("case", {**DATA, **MODELS, **PLANS})
def test_bad_input_costs_no_query(case, monkeypatch):
    def never(*_, **__):
        raise AssertionError("the metric was asked")

    monkeypatch.setattr(mo.Metric, "answers", never)
    with pytest.raises((MetricOptError, ValueError, TypeError)):
        ALL[case][0]()


@pytest.mark.parametrize("answer", [lambda *_: 7.0, lambda *_: math.nan, raising, lambda *_: "0.5"])
def test_a_metric_that_fails_on_the_original_costs_two_queries_and_not_the_budget(answer):
    ledger = mo.QueryLedger()
    with pytest.warns(MetricFailureWarning), pytest.raises(MetricError):
        optimised(metric=of_labels(answer), ledger=ledger)
    assert ledger.used == 2


def test_data_of_words_are_named():
    words = np.array([["a", "b", "c", "d"]] * 150)
    with pytest.raises(DataError, match="train holds a ndarray that is no array of numbers: can't convert"):
        optimised(train=(words, Y[:150]))


def test_the_same_run_without_a_mistake_works():
    assert optimised().ledger.used == 20


def test_numbers_of_numpy_are_whole_too():
    assert optimised(queries=np.int64(3)).ledger.used == 3
