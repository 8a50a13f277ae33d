"""The user's own loop: what is asked, told in any order, failed, known before, granted later, and kept on disk."""

import math

import pytest
import torch
from torch import nn

import metricopt as mo
from metricopt.core.errors import BudgetError, DataError, FileFormatError, MetricError

X = torch.randn(500, 4, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] + 0.3 * X[:, 1] > 0.5).long()
FEW = mo.Recipe(start_steps=20, candidates=40, rows=200)


def begun(**options):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    options = {"queries": 30, "recipe": FEW, **options}
    return mo.study(net, goal="max", train=(X[:200], Y[:200]), val=X[200:], **options)


def values(study, phi):
    labels = (study.outputs(phi)[..., 0] > 0).long()
    return (labels == Y[200:]).double().mean(1)


def spend(study, at_once=4):
    while study.left:
        phi = study.ask(at_once)
        study.tell(phi, values(study, phi))
    return study


@pytest.mark.parametrize("at_once", [1, 8])
def test_what_is_asked_and_told_gets_better(at_once):
    study = spend(begun(), at_once)
    assert len(study.told) == 30
    assert torch.equal(study.told[0][0], torch.zeros(len(study.best)))  # the original comes first
    assert study.best_value > study.told[0][1] + 0.03
    assert float(values(study, study.best[None])) == study.best_value
    labels = (study.model()(X[200:])[:, 0] > 0).long()
    assert float((labels == Y[200:]).double().mean()) == pytest.approx(study.best_value)


def test_the_same_answers_give_the_same_points():
    one, other = spend(begun()), spend(begun())
    assert all(torch.equal(a, b) for (a, _), (b, _) in zip(one.told, other.told, strict=True))


@pytest.mark.filterwarnings("ignore::metricopt.core.errors.MetricFailureWarning")
def test_answers_may_come_late_and_in_any_order_and_some_not_at_all():
    study = begun()
    first = study.ask(5)
    assert len(first) == 1 and len(study.ask(5)) == 0  # all else depends on the original's
    study.tell(first, values(study, first))
    while study.left:
        new = study.ask(3)
        pending = study.pending
        assert len(pending) >= len(new)
        shuffled = pending.flip(0)[: max(1, len(pending) - 2)]
        told = values(study, shuffled).tolist()
        study.tell(shuffled, [None, *told[1:]] if len(study.told) == 8 else told)
    study.tell(study.pending, values(study, study.pending))
    assert len(study.told) == 30 and len(study.pending) == 0
    assert sum(math.isnan(value) for _, value in study.told) <= 1
    assert study.best_value > study.told[0][1]


def test_points_known_before_count_and_use_up_nothing():
    known = spend(begun())
    study = begun(queries=3)
    study.tell(known.best[None], [known.best_value])
    first = study.ask()
    study.tell(first, values(study, first))
    study.ask()
    assert torch.equal(study._archive.best, known.best) and study.left == 1  # the search goes on from there


def test_more_can_be_granted_later():
    study = spend(begun(queries=5))
    with pytest.raises(BudgetError, match=r"all 5 points of the study were asked for: grant more by study\.more\(50\)"):
        study.ask()
    study.more(4)
    assert len(spend(study).told) == 9


def test_a_study_goes_on_from_its_journal(tmp_path):
    whole = spend(begun())
    study = begun(run_dir=tmp_path / "study")
    for _ in range(4):
        phi = study.ask(4)
        study.tell(phi, values(study, phi))
    pending = study.ask(4)
    study.close()
    again = begun(run_dir=tmp_path / "study", resume=True)
    assert torch.equal(again.pending, pending) and again.left == study.left
    again.tell(pending, values(again, pending))
    spend(again)
    assert all(torch.equal(a, b) for (a, _), (b, _) in zip(whole.told, again.told, strict=True))


def test_another_study_is_not_taken_for_this_one(tmp_path):
    begun(run_dir=tmp_path / "study").close()
    with pytest.raises(FileFormatError, match="holds a run already"):
        begun(run_dir=tmp_path / "study")
    with pytest.raises(FileFormatError, match=r"study\.seed was 0 and is 1"):
        begun(run_dir=tmp_path / "study", resume=True, seed=1)


def test_nonsense_is_refused_in_a_sentence():
    study = begun()
    with pytest.raises(BudgetError, match="ask was given 0; expected at least 1 point"):
        study.ask(0)
    with pytest.raises(DataError, match=r"tell was given 2 values of points \(3,\); expected shape \(2, "):
        study.tell(torch.zeros(3), [0.5, 0.6])
    with pytest.raises(MetricError, match="7"):
        study.tell(study.ask(), [7.0])
    with pytest.raises(FileFormatError, match="resume is True without a run_dir"):
        begun(resume=True)


@pytest.mark.filterwarnings("ignore::metricopt.core.errors.MetricFailureWarning")
def test_a_metric_that_cannot_judge_the_original_ends_the_study():
    study = begun()
    for _ in range(2):
        study.tell(study.ask(), [math.nan])
    with pytest.raises(MetricError, match="the metric failed at phi = 0, the original model, 2 times of 2"):
        study.ask()
