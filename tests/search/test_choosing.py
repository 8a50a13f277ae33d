import math

import pytest
import torch
from scipy.stats import norm

from metricopt.search.choosing import by_improvement, by_samples, log_improvement


def test_the_logarithm_of_the_improvement_is_that_of_its_textbook_formula():
    z = torch.linspace(-6, 6, 49, dtype=torch.float64)
    expected = torch.tensor([math.log(norm.pdf(x) + x * norm.cdf(x)) for x in z.tolist()], dtype=torch.float64)
    torch.testing.assert_close(log_improvement(z), expected, atol=1e-7, rtol=1e-7)


@pytest.mark.parametrize("z", [-30.0, -1e3, -1e5, -1e8])
def test_in_the_far_tail_it_is_the_leading_term(z):
    # z Phi(z) + phi(z) = phi(z) / z^2 (1 - 3 / z^2 + ...) for z far below 0
    expected = -z * z / 2 - math.log(2 * math.pi) / 2 - 2 * math.log(-z)
    assert float(log_improvement(torch.tensor([z], dtype=torch.float64))) == pytest.approx(
        expected, abs=4e-3, rel=1e-12
    )


def test_of_candidates_that_tell_the_same_only_one_is_asked_about_before_others_are():
    alike = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.5]])
    chosen = by_improvement(torch.zeros(3), alike, lowest=0.0, noise=1e-4, count=2)
    assert chosen == [0, 2]


def test_no_more_candidates_are_chosen_than_there_are_and_none_twice():
    assert sorted(by_improvement(torch.zeros(3), torch.eye(3), lowest=0.0, noise=0.1, count=5)) == [0, 1, 2]
    assert sorted(by_samples(torch.zeros(5, 3))) == [0, 1, 2]


def test_a_certain_gain_is_taken_before_an_unlikely_one():
    mean = torch.tensor([0.2, 0.5])
    covariance = torch.diag(torch.tensor([1e-8, 1e-2]))
    assert by_improvement(mean, covariance, lowest=0.4, noise=0.0, count=1) == [0]
