"""`value=` of optimize and study: what it takes, what it refuses before the first query, and that it is used."""

from pathlib import Path

import pytest
import torch
from torch import nn

import metricopt as mo
from metricopt.core.errors import FileFormatError, MetricError, SuspicionWarning, UnknownNameError
from metricopt.search.transfer.shelf import entries

X = torch.randn(600, 4, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] + 0.3 * X[:, 1] > 0.5).long()
FEW = mo.Recipe(start_steps=10, candidates=40, rows=200)


def network(seed=0, width=8):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(4, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, 2))


def optimized(value=None, *, net=None, metric="f1", **options):
    calls = []
    options = {"queries": 30, "recipe": FEW, "learn_from_val": False, **options}
    train, val = (X[:200], Y[:200]), (X[200:], Y[200:])
    result = mo.optimize(
        network() if net is None else net, metric=metric, train=train, val=val, value=value, seed=0, **options
    )
    return result, calls


@pytest.fixture(scope="module")
def first():
    return optimized()[0]


def stages(result):
    return {query.stage for query in result.ledger.queries}


def test_a_result_its_file_and_its_value_function_begin_the_same_search(first, tmp_path):
    path = first.save_value(tmp_path / "mine", data="made up")
    assert mo.load_carried(path).about["data"] == "made up"
    runs = [optimized(value, net=network(1))[0] for value in (first, first.carried, Path(path))]
    assert all(stages(run) >= {"start", "transfer"} for run in runs)
    assert all(torch.equal(run.proposal, runs[0].proposal) for run in runs)


def test_nothing_is_brought_unless_it_is_asked_for(first):
    assert "transfer" not in stages(first)
    assert len(first.carried) <= 30
    assert first.carried.outputs.dtype == torch.float16


@pytest.mark.parametrize(
    ("options", "error", "named"),
    [
        ({"metric": "mcr"}, FileFormatError, "goal='max', and this one has goal='min'"),
        ({"metric": "f1", "preset": "paper", "recipe": None}, FileFormatError, "preset='paper'"),
        ({"tune": "weights"}, MetricError, "tune is 'weights'"),
        ({"recipe": mo.Recipe(views=False)}, FileFormatError, "views=False"),
    ],
)
def test_what_does_not_fit_is_refused_before_the_first_query(first, options, error, named):
    ledger = mo.QueryLedger()
    with pytest.raises(error) as refused:
        optimized(first, **{"ledger": ledger, **options})
    assert named in str(refused.value)
    assert ledger.used == 0


def test_where_weights_could_be_finetuned_a_warning_says_that_an_adapter_is_searched(first):
    few = {"recipe": None, "learn_from_val": True, "queries": 20}
    with pytest.warns(SuspicionWarning, match="say tune='adapter' if this is meant"):
        assert "transfer" in stages(optimized(first, **few)[0])
    assert "transfer" in stages(optimized(first, tune="adapter", **few)[0])  # no warning, which would be an error


def test_another_layout_is_refused_where_phi_was_chosen(first):
    with pytest.raises(FileFormatError, match="layout 'FiLM of 32"):
        optimized(first.carried.only("phi"), adapter=mo.OutputAffine())


@pytest.mark.parametrize(("value", "error"), [("no_such", UnknownNameError), (3, FileFormatError)])
def test_what_is_no_value_function_is_refused(value, error):
    with pytest.raises(error, match=r"no_such|int"):
        optimized(value)


def test_a_result_without_a_search_of_an_adapter_has_nothing_to_save(first):
    with pytest.raises(FileFormatError, match="tune='adapter'"):
        mo.Result(**{**vars(first), "carried": None}).save_value("nowhere")


def test_a_run_is_not_resumed_with_another_value_function(first, tmp_path):
    optimized(first, run_dir=tmp_path)
    with pytest.raises(FileFormatError):
        optimized(first.carried.only("phi"), run_dir=tmp_path, resume=True)


def test_a_study_begins_with_it_and_leaves_its_own(first, tmp_path):
    study = mo.study(network(1), goal="max", train=(X[:200], Y[:200]), val=X[200:], queries=20, recipe=FEW, value=first)
    with pytest.raises(FileFormatError, match="0 answers"):
        study.save_value(tmp_path / "early")
    while study.left:
        phi = study.ask(5)
        labels = study.outputs(phi).argmax(2)
        study.tell(phi, (labels == Y[200:]).double().mean(1))
    assert len(mo.load_carried(study.save_value(tmp_path / "mine"))) >= 10


def one_logit():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1), nn.Flatten(0))


@pytest.mark.parametrize("name", sorted(entries()))
def test_every_value_function_on_the_shelf_begins_a_search_of_any_network_with_such_outputs(name):
    assert "transfer" in stages(optimized(name, net=one_logit(), metric="aucpr")[0])


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"metric": "aucpr", "net": network()}, "about 1 outputs (classes), and here there are 2"),
        ({"metric": "f1", "net": one_logit()}, "views 'logits', and this metric is given 'labels'"),
        ({"metric": "mcr", "net": one_logit()}, "goal='max', and this one has goal='min'"),
    ],
)
def test_what_is_on_the_shelf_is_refused_where_it_does_not_fit(options, named):
    with pytest.raises(FileFormatError) as refused:
        optimized("ranking_of_incomes", **options)
    assert named in str(refused.value)
