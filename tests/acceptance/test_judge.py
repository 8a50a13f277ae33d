import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score
from torch import nn

from metricopt.acceptance.climb import climb, compare
from metricopt.acceptance.comparison import Comparison
from metricopt.acceptance.evidence import Evidence
from metricopt.acceptance.gathering import decision_calls, gathered
from metricopt.acceptance.judge import Judge
from metricopt.adapters import OutputAffine, adapt
from metricopt.core.errors import MetricFailureWarning
from metricopt.data.dataset import Examples
from metricopt.metrics import Constraint, Metric, accuracy, aucpr, f_beta, mcr, worst_group_accuracy
from metricopt.run.ledger import QueryLedger

ERROR = 0.3


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def pair(rows, seed, *, repaired, spoiled):
    """Logits of a model that errs on 30% of rows and of one that repairs and spoils shares of the right and wrong."""
    generator = seeded(seed)
    targets = torch.randint(2, (rows,), generator=generator)
    wrong = torch.rand(rows, generator=generator) < ERROR
    luck = torch.rand(rows, generator=generator)
    still_wrong = torch.where(wrong, luck >= repaired, luck < spoiled)
    before, after = (torch.where(each, -1.0, 1.0) * (2 * targets - 1) for each in (wrong, still_wrong))
    return (before, after), Examples(torch.zeros(rows, 1), targets, torch.arange(rows) % 3)


def compared(repetitions, *, repaired, spoiled, rows=150):
    for seed in range(repetitions):
        outputs, examples = pair(rows, seed, repaired=repaired, spoiled=spoiled)
        yield compare(mcr(), outputs, examples, resamples=200, generator=seeded(seed))


def test_the_interval_covers_the_true_gain_as_often_as_its_level_says():
    true_gain = ERROR * 0.4 - (1 - ERROR) * 0.1
    found = list(compared(100, repaired=0.4, spoiled=0.1))
    covered = sum(one.interval[0] <= true_gain <= one.interval[1] for one in found)
    assert abs(covered - 90) <= 3 * math.sqrt(100 * 0.9 * 0.1)
    above = sum(one.interval[0] > true_gain for one in found)
    assert above <= 5 + 3 * math.sqrt(100 * 0.05 * 0.95)


@pytest.mark.parametrize("repaired", [0.05, 0.4], ids=["few rows differ", "many rows differ"])
def test_a_model_that_is_no_better_is_accepted_in_at_most_five_percent(repaired):
    spoiled = repaired * ERROR / (1 - ERROR)
    accepted = sum(one.accepted for one in compared(200, repaired=repaired, spoiled=spoiled))
    assert accepted <= 200 * 0.05 + 2.5 * math.sqrt(200 * 0.05 * 0.95)


def test_a_model_that_is_worse_is_never_accepted_and_a_much_better_one_nearly_always():
    assert not any(one.accepted for one in compared(30, repaired=0.0, spoiled=0.1))
    assert sum(one.accepted for one in compared(30, repaired=0.6, spoiled=0.05)) >= 28


def test_identical_outputs_gain_nothing_and_are_not_accepted():
    (before, _), examples = pair(80, 0, repaired=0, spoiled=0)
    found = compare(f_beta(), (before, before.clone()), examples, generator=seeded())
    assert found.interval == (0.0, 0.0) and found.confidence == 0.0 and not found.accepted
    assert found.before == found.after


def test_it_is_a_plain_bootstrap_of_rows_drawn_together():
    outputs, examples = pair(60, 1, repaired=0.4, spoiled=0.1)
    found = compare(f_beta(), outputs, examples, level=0.8, resamples=69, generator=seeded(5))
    truth, before, after = (part.numpy() for part in (examples.targets, outputs[0] > 0, outputs[1] > 0))
    draws = torch.randint(60, (69, 60), generator=seeded(5)).numpy()
    gains = [f1_score(truth[rows], after[rows]) - f1_score(truth[rows], before[rows]) for rows in draws]
    assert found.interval == pytest.approx(np.quantile(gains, [0.1, 0.9], method="weibull"))
    assert found.confidence == pytest.approx(np.mean(np.array(gains) > 0))
    assert (found.before, found.after) == pytest.approx((f1_score(truth, before), f1_score(truth, after)))
    assert (found.level, found.resamples, found.examples) == (0.8, 69, 60)


def test_pairing_sees_a_gain_that_is_small_beside_the_noise_of_either_model():
    outputs, examples = pair(400, 0, repaired=0.1, spoiled=0.0)
    found = compare(mcr(), outputs, examples, generator=seeded())
    noise = math.sqrt(ERROR * (1 - ERROR) / 400)
    assert found.before - found.after < 2.5 * noise and found.accepted


def test_a_gain_is_positive_whichever_way_the_metric_runs():
    outputs, examples = pair(200, 0, repaired=0.5, spoiled=0.05)
    low, high = (compare(metric, outputs, examples, generator=seeded()) for metric in (mcr(), accuracy()))
    assert low.after < low.before and high.after > high.before
    assert low.interval == pytest.approx(high.interval) and low.accepted and high.accepted
    backwards = compare(mcr(), (outputs[1], outputs[0]), examples, generator=seeded())
    assert backwards.interval == pytest.approx((-low.interval[1], -low.interval[0])) and not backwards.accepted


def test_groups_are_resampled_with_their_rows():
    outputs, examples = pair(300, 0, repaired=0.5, spoiled=0.05)
    found = compare(worst_group_accuracy(), outputs, examples, generator=seeded(), resamples=20)

    def worst(logits, rows):
        right = (logits[rows] > 0).long() == examples.targets[rows]
        groups = torch.arange(300)[rows] % 3
        return min(float(right[groups == group].double().mean()) for group in range(3))

    draws = torch.randint(300, (20, 300), generator=seeded())
    gains = [worst(outputs[1], rows) - worst(outputs[0], rows) for rows in draws]
    assert found.interval == pytest.approx((min(gains), max(gains)))  # the first of 20: one in 21 is below it


def test_resamples_on_which_the_metric_fails_are_left_out():
    outputs, examples = pair(30, 0, repaired=0.4, spoiled=0.1)
    few = Examples(examples.inputs, (torch.arange(30) == 0).long())  # a third of the resamples lack the one positive
    strict = Metric(lambda y, s: y[s.argmax()] if y.any() else math.nan, on="scores", goal="max", name="strict")
    draws = torch.randint(30, (100, 30), generator=seeded())
    with pytest.warns(MetricFailureWarning, match="'strict' gave nan"):
        found = compare(strict, outputs, few, resamples=100, generator=seeded())
    assert found.resamples == int((draws == 0).any(1).sum()) < 100


def test_where_every_resample_fails_nothing_is_accepted():
    outputs, examples = pair(30, 0, repaired=1.0, spoiled=0.0)
    never = Metric(lambda *_: math.nan, on="labels", goal="max", name="never")
    with pytest.warns(MetricFailureWarning):
        found = compare(never, outputs, examples, resamples=3, generator=seeded())
    assert found.resamples == 0 and math.isnan(found.interval[0]) and not found.accepted


def linear(seed):
    net = nn.Sequential(nn.Linear(3, 1), nn.Flatten(0))
    for i, parameter in enumerate(net.parameters()):
        parameter.data = torch.randn(parameter.shape, generator=seeded(seed + i))
    return net


@pytest.mark.parametrize("metric", [mcr(), aucpr(), worst_group_accuracy()], ids=lambda metric: metric.name)
def test_comparing_models_is_comparing_their_outputs(metric):
    inputs = torch.randn(70, 3, generator=seeded())
    examples = Examples(inputs, (inputs[:, 0] > 0).long(), torch.arange(70) % 2)
    models = (linear(0), linear(10))
    with torch.no_grad():
        outputs = (models[0](inputs), models[1](inputs))
    by_outputs = compare(metric, outputs, examples, resamples=60, generator=seeded(3))
    by_models = compare(metric, models, examples, resamples=60, generator=seeded(3))
    assert by_models.interval == pytest.approx(by_outputs.interval, abs=1e-6)
    assert (by_models.before, by_models.after) == pytest.approx((by_outputs.before, by_outputs.after), abs=1e-6)
    assert by_models.confidence == pytest.approx(by_outputs.confidence, abs=0.02)


def test_a_metric_on_the_model_that_fails_on_a_resample_is_left_out_there():
    inputs = torch.randn(20, 3, generator=seeded())
    examples = Examples(inputs, (torch.arange(20) == 0).long())

    def strict(model, x, y):
        if not y.any():
            raise ValueError("no positives")
        return float(model(x).sigmoid()[y == 1].mean())

    with pytest.warns(MetricFailureWarning, match="no positives"):
        found = compare(
            Metric(strict, on="model", goal="max"), (linear(0), linear(10)), examples, resamples=50, generator=seeded()
        )
    draws = torch.randint(20, (50, 20), generator=seeded())
    assert found.resamples == int((draws == 0).any(1).sum()) < 50


@pytest.mark.parametrize(("low", "accepted"), [(0.001, True), (0.0, False), (-0.1, False), (math.nan, False)])
def test_only_an_interval_wholly_above_zero_is_accepted(low, accepted):
    found = Comparison(0.2, 0.1, (low, 0.2), level=0.9, confidence=0.9, resamples=9, examples=9)
    assert found.accepted is accepted


def ladder(rows, seed, *, steps):
    """Logits of a model that errs on 30% of rows and of others, each of which repairs and spoils shares of the last."""
    generator = seeded(seed)
    targets = torch.randint(2, (rows,), generator=generator)
    wrong = torch.rand(rows, generator=generator) < ERROR
    members = [wrong]
    for repaired, spoiled in steps:
        luck = torch.rand(rows, generator=generator)
        members.append(torch.where(members[-1], luck >= repaired, luck < spoiled))
    outputs = [torch.where(each, -1.0, 1.0) * (2 * targets - 1) for each in members]
    return outputs, Examples(torch.zeros(rows, 1), targets)


def decided(outputs, examples, *, seed=0, resamples=None, metric=None, **options):
    metric = mcr() if metric is None else metric
    evidence = gathered(metric, outputs, examples, resamples=resamples, generator=seeded(seed))
    return climb(metric, evidence, examples=len(examples), **options)


def climbed(seed, steps, rows=600, resamples=200):
    outputs, examples = ladder(rows, seed, steps=steps)
    return decided(outputs, examples, seed=seed, resamples=resamples)


NO_BETTER = (0.2, 0.2 * ERROR / (1 - ERROR))  # as many rows lost as won


@pytest.mark.parametrize(
    ("steps", "kept"),
    [
        ([(0.6, 0.0), (0.6, 0.0)], 2),  # both help
        ([(0.6, 0.0), (0.0, 0.1)], 1),  # what comes after the first undoes part of it
        ([(0.0, 0.1), (0.9, 0.0)], 2),  # the first harms, the second more than repairs it
    ],
)
def test_a_candidate_is_kept_only_if_it_is_better_than_the_one_kept_before_it(steps, kept):
    found, comparison = climbed(0, steps)
    assert found == kept and comparison.accepted
    assert comparison.level == pytest.approx(0.95)  # half of the error for each of two


def test_if_nothing_is_kept_the_last_candidate_is_shown_and_not_accepted():
    found, comparison = climbed(0, [(0.0, 0.1), (0.0, 0.1)])
    assert found == 2 and not comparison.accepted and comparison.after > comparison.before


@pytest.mark.parametrize("resamples", [50, 200])
def test_two_candidates_that_are_no_better_are_accepted_in_at_most_five_percent_together(resamples):
    accepted = sum(climbed(seed, [NO_BETTER, NO_BETTER], 150, resamples)[1].accepted for seed in range(300))
    assert accepted <= 300 * 0.05 + 2 * math.sqrt(300 * 0.05 * 0.95)


def test_too_few_resamples_for_so_small_an_error_accept_nothing():
    found = climbed(0, [(0.9, 0.0), (0.9, 0.0)], resamples=38)[1]  # a fortieth of 39 is less than one
    assert math.isnan(found.interval[0]) and not found.accepted and found.confidence == 1
    assert climbed(0, [(0.9, 0.0), (0.9, 0.0)], resamples=39)[1].accepted


@pytest.mark.parametrize(("kept", "sure"), [(1, (0.55, 0.78)), (2, (0.82, 0.95))])
def test_in_four_of_five_resamples_it_must_be_better_than_a_plainer_one(kept, sure):
    """Candidates that beat the original clearly and each other hardly: found among many draws by their confidence."""
    seen = 0
    for seed in range(60):
        outputs, examples = ladder(600, seed, steps=[(0.6, 0.0), (0.25, 0.02)])
        between = compare(mcr(), outputs[1:], examples, resamples=200, generator=seeded(seed))
        if sure[0] < between.confidence < sure[1]:
            assert decided(outputs, examples, seed=seed, resamples=200)[0] == kept
            seen += 1
    assert seen >= 3


def test_stages_of_a_search_have_the_whole_error_each_and_the_likelier_one_is_kept():
    whole = torch.tensor([0.3, 0.2, 0.199])
    found = Evidence(whole, whole[:, None] + 0.002 * torch.randn(3, 200, generator=seeded(0)), folds=False, calls=603)
    assert 0.5 < found.confidence(1, 2, sign=-1.0) < 0.8
    kept, comparison = climb(mcr(), replace(found, luck=(0.0, 1.0, 1.0)), examples=600)
    assert (kept, comparison.level, comparison.judged) == (2, 0.9, 1)
    # As sure as before, and luckier by more than it is ahead.
    assert climb(mcr(), replace(found, luck=(0.0, 1.0, 3.0)), examples=600)[0] == 1


def test_a_candidate_turned_down_for_another_reason_still_counts():
    outputs, examples = pair(200, 0, repaired=0.5, spoiled=0.0)
    assert decided(outputs, examples, among=2)[1].level == pytest.approx(0.95)


def test_a_single_candidate_has_the_whole_error_to_itself():
    outputs, examples = pair(200, 0, repaired=0.5, spoiled=0.0)
    kept, alone = decided(outputs, examples, seed=1, resamples=99)
    wrong = torch.stack([(each > 0).long() != examples.targets for each in outputs]).double()
    draws = torch.randint(200, (99, 200), generator=seeded(1))
    gains = (wrong[0][draws] - wrong[1][draws]).mean(1).sort().values
    assert kept == 1 and alone.level == 0.9
    assert alone.interval == pytest.approx((float(gains[4]), float(gains[-5])))  # the fifth of 99: 5% are below it


def test_an_interval_says_how_many_models_share_its_error():
    outputs, examples = pair(200, 0, repaired=0.5, spoiled=0.0)
    assert decided(outputs, examples)[1].interval_text == "90% interval"
    assert decided(outputs, examples, among=2)[1].interval_text == "95% interval, as 2 models were judged"


class Asked:
    """Error rate that knows how often it was asked about how many rows."""

    def __init__(self):
        self.rows = []

    def __call__(self, truth, labels):
        self.rows.append(len(truth))
        return float((truth != labels).mean())


def costly(function=None):
    return Metric(function or Asked(), on="labels", goal="min", costly=True, name="error")


@pytest.mark.parametrize("steps", [[(0.05, 0.05 * ERROR / (1 - ERROR))], [NO_BETTER], [NO_BETTER, NO_BETTER]])
def test_a_dear_metric_too_accepts_candidates_that_are_no_better_in_at_most_five_percent(steps):
    accepted = 0
    for seed in range(400):
        outputs, examples = ladder(160, seed, steps=steps)
        accepted += decided(outputs, examples, seed=seed, metric=costly())[1].accepted
    assert accepted <= 400 * 0.05 + 2.5 * math.sqrt(400 * 0.05 * 0.95)


def test_a_dear_metric_still_accepts_a_much_better_candidate_nearly_always():
    found = []
    for seed in range(30):
        outputs, examples = pair(160, seed, repaired=0.6, spoiled=0.05)
        found.append(compare(costly(), outputs, examples, generator=seeded(seed)).accepted)
    assert sum(found) >= 28


@pytest.mark.parametrize("rows", [5, 160, 163])
def test_a_dear_metric_is_asked_on_all_rows_and_with_each_of_at_most_eight_folds_left_out(rows):
    asked = Asked()
    outputs, examples = pair(rows, 0, repaired=0.4, spoiled=0.1)
    found = gathered(costly(asked), outputs, examples, resamples=None, generator=seeded())
    folds = min(8, rows)
    assert found.calls == len(asked.rows) == 2 * (1 + folds) and asked.rows.count(rows) == 2
    assert sum(rows - count for count in asked.rows) == 2 * rows  # every row is left out once, of both


def shifted_line():
    """Rows on a line of which the original errs on a quarter, and a shift of -0.5 on none."""
    x = torch.linspace(-1, 1, 100)[:, None]
    model = adapt(nn.Linear(1, 1), OutputAffine())
    _ = model.net.weight.data.fill_(1.0), model.net.bias.data.fill_(0.5)
    return model, Examples(x, (x[:, 0] > 0).long())


PAIR = torch.tensor([[0.0, 0.0], [0.0, -0.5]])


def test_a_judge_compares_what_the_model_predicts_at_each_phi():
    model, data = shifted_line()
    found = Judge(model, data).compare(mcr(), PAIR)
    assert (found.before, found.after, found.accepted) == (pytest.approx(0.25), 0.0, True)
    assert not model.phi.any()


def test_a_judge_of_models_is_a_judge_of_their_predictions():
    model, data = shifted_line()

    def error_of(model, inputs, targets):
        return float(((model(inputs)[:, 0] > 0) != targets).double().mean())

    of_model = Judge(model, data, seed=3).compare(Metric(error_of, on="model", goal="min"), PAIR)
    of_labels = Judge(model, data, seed=3).compare(costly(), PAIR)
    assert of_model.interval == pytest.approx(of_labels.interval) and of_model.after == of_labels.after
    assert not model.phi.any()


@pytest.mark.parametrize("dear", [False, True])
def test_every_call_of_a_judge_is_counted_and_no_more_are_made_than_promised(dear):
    model, data = shifted_line()
    asked, ledger = Asked(), QueryLedger()
    metric = Metric(asked, on="labels", goal="min", costly=dear)
    Judge(model, data, ledger=ledger).keep_best(metric, PAIR[1:])
    assert ledger.calls == ledger.decisions == len(asked.rows) == (2 * 9 if dear else 2 * 501)
    assert len(asked.rows) <= decision_calls(metric, 1)
    Judge(model, data, ledger=ledger).check(Constraint(metric, at_most=0.4), PAIR)
    assert ledger.calls == len(asked.rows) and ledger.checks == (10 if dear else 502)


def test_a_dear_metric_that_fails_at_first_is_asked_again_and_every_call_is_counted():
    model, data = shifted_line()
    asked, ledger = Asked(), QueryLedger()

    def once_failing(truth, labels):
        value = asked(truth, labels)
        return math.nan if len(asked.rows) == 1 else value

    with pytest.warns(MetricFailureWarning, match="'error' gave nan"):
        found = Judge(model, data, ledger=ledger).compare(costly(once_failing), PAIR)
    assert found.before == pytest.approx(0.25) and found.accepted
    assert ledger.calls == len(asked.rows) == 2 * (9 + 1) <= decision_calls(costly(), 1)


def test_a_constraint_of_a_dear_metric_is_bounded_by_students_distribution_over_the_folds():
    model, data = shifted_line()
    kept = Judge(model, data).check(Constraint(costly(), at_most=0.4), torch.zeros(2, 2))
    spread = math.sqrt(0.25 * 0.75 / 100)
    assert kept.before == kept.after == pytest.approx(0.25) and kept.holds
    assert 0.25 + 0.3 * spread < kept.bound < 0.25 + 3 * spread


def test_changes_are_of_classes_and_hidden_truth_has_none():
    model, data = shifted_line()
    found = Judge(model, data).changes(mcr(), PAIR)
    assert (found["won"], found["lost"]) == ([25, 0], [0, 0])
    hidden = Metric(Asked(), on="labels", goal="min", hidden=True)
    assert Judge(model, data).changes(hidden, PAIR) == {}
    assert Judge(model, data).changes(Metric(Asked(), on="embeddings", goal="min"), PAIR) == {}


def test_what_is_refitted_must_be_better_on_the_rows_it_learnt_from_too():
    from metricopt.acceptance.comparison import Comparison

    about = {"interval": (0.01, 0.2), "level": 0.8, "confidence": 0.99, "resamples": 500, "examples": 100}
    assert Comparison(0.5, 0.6, refit=0.7, **about).accepted
    assert not Comparison(0.5, 0.6, refit=0.4, **about).accepted
    assert Comparison(0.5, 0.4, refit=0.3, **about).accepted, "of a metric to be lowered"
    assert not Comparison(0.5, 0.6, refit=float("nan"), **about).accepted
