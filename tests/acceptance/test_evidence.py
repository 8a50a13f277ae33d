"""Evidence against closed forms: a jackknife of a mean is the mean's own standard error."""

import math
from dataclasses import replace

import pytest
import torch
from scipy import stats

from metricopt.acceptance.evidence import Evidence, bootstrapped, jackknifed
from metricopt.core.errors import MetricError

ROWS = torch.randn(2, 80, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def ask(_key, function, _calls):
    return function()


def means(index):
    return torch.stack([row[index].mean(1) for row in ROWS])


def draw(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("level", [0.9, 0.95])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_jackknife_of_a_mean_is_students_interval_of_the_means_of_folds(level, sign):
    found = jackknifed(means, 80, 8, draw(), candidates=2, once=ask)
    order = torch.randperm(80, generator=draw())
    gains = sign * (ROWS[1] - ROWS[0])
    of_folds = torch.stack([gains[order[torch.arange(80) % 8 == fold]].mean() for fold in range(8)]).numpy()
    expected = stats.t.interval(level, 7, loc=of_folds.mean(), scale=stats.sem(of_folds))
    assert found.interval(0, 1, sign=sign, level=level) == pytest.approx(expected)
    below = stats.t.sf(0, 7, loc=of_folds.mean(), scale=stats.sem(of_folds))
    assert found.confidence(0, 1, sign=sign) == pytest.approx(below)
    assert found.folds and found.calls == 2 * 9


@pytest.mark.parametrize("tail", [0.1, 0.9])
def test_a_bound_from_folds_is_students_quantile_and_one_from_resamples_theirs(tail):
    found = jackknifed(means, 80, 8, draw(), candidates=2, once=ask)
    order = torch.randperm(80, generator=draw())
    of_folds = torch.stack([ROWS[0, order[torch.arange(80) % 8 == fold]].mean() for fold in range(8)]).numpy()
    assert found.bound(0, tail) == pytest.approx(stats.t.ppf(tail, 7, loc=ROWS[0].mean(), scale=stats.sem(of_folds)))
    resampled = bootstrapped(means, 80, 200, draw(), candidates=2, once=ask)
    index = torch.randint(80, (200, 80), generator=draw())
    assert resampled.bound(0, tail) == pytest.approx(float(ROWS[0][index].mean(1).quantile(tail)))


def test_resamples_are_the_same_rows_for_all_candidates_however_many_are_asked_at_once():
    found = bootstrapped(means, 80, 120, draw(), candidates=2, once=ask)
    torch.testing.assert_close(found.others, means(torch.randint(80, (120, 80), generator=draw())))
    assert found.calls == 2 * 121 and not found.folds


def test_folds_without_an_answer_are_left_out_and_too_few_accept_nothing():
    whole = torch.tensor([0.4, 0.6])
    others = torch.tensor([[0.4, 0.41, 0.39, math.nan], [0.6, 0.6, math.nan, 0.6]])
    two = Evidence(whole, others, folds=True, calls=8)
    assert len(two.gains(0, 1, sign=1.0)) == 2 and two.interval(0, 1, sign=1.0, level=0.9)[0] < 0.2
    one = Evidence(whole, torch.tensor([[0.4, math.nan], [math.nan, 0.6]]), folds=True, calls=4)
    assert math.isnan(one.interval(0, 1, sign=1.0, level=0.9)[0]) and one.confidence(0, 1, sign=1.0) == 0.0
    none = Evidence(torch.tensor([0.4, math.nan]), torch.full((2, 8), 0.5), folds=True, calls=18)
    assert math.isnan(none.interval(0, 1, sign=1.0, level=0.9)[0])


def test_values_on_all_rows_are_asked_again_up_to_three_times_and_each_counts():
    asked = []

    def shaky(index):
        asked.append(index.shape)
        values = means(index)
        return values.fill_(math.nan) if len(asked) <= 2 else values

    found = jackknifed(shaky, 80, 8, draw(), candidates=2, once=ask)
    torch.testing.assert_close(found.whole, ROWS.mean(1))
    assert len(asked) == 3 + 8 and found.calls == 2 * len(asked)

    def never(index):
        asked.append(index.shape)
        return torch.full((2, len(index)), math.nan)

    asked.clear()
    with pytest.raises(MetricError, match=r"no answer about the held-out rows, 4 times in a row.*resume=True"):
        jackknifed(never, 80, 8, draw(), candidates=2, once=ask)
    assert len(asked) == 4


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_luck_moves_a_normal_interval_of_the_gain_by_so_many_standard_errors(sign):
    found = bootstrapped(means, 80, 200, draw(), candidates=2, once=ask)
    gains = sign * (found.others[1] - found.others[0]).numpy()
    centre, error = sign * float(found.whole[1] - found.whole[0]), gains.std(ddof=1)
    lucky = replace(found, luck=(0.0, 1.5))
    expected = stats.norm.interval(0.9, loc=centre - 1.5 * error, scale=error)
    assert lucky.interval(0, 1, sign=sign, level=0.9) == pytest.approx(expected)
    assert lucky.confidence(0, 1, sign=sign) == pytest.approx(stats.norm.cdf(centre / error - 1.5))


def test_of_two_as_lucky_candidates_neither_is_ahead_for_it():
    found = bootstrapped(means, 80, 200, draw(), candidates=2, once=ask)
    even, none = replace(found, luck=(2.0, 2.0)), replace(found, luck=(0.0, 0.0))
    assert even.interval(0, 1, sign=1.0, level=0.9) == none.interval(0, 1, sign=1.0, level=0.9)
