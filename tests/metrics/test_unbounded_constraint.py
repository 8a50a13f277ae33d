"""Constraints on metrics that have no range."""

import math

import pytest
import torch

from metricopt.core.errors import MetricError
from metricopt.metrics import Constraint, Metric
from metricopt.metrics.constraint import binomial_std

ERROR = Metric(lambda _y, _p: 0.0, on="values", goal="min", name="error")


def test_a_bound_is_broken_by_half_where_a_value_is_off_by_as_much_as_the_bound_itself():
    values = torch.tensor([3.0, 20.0, 1e9, math.nan], dtype=torch.float64)
    found = Constraint(ERROR, at_most=10.0).violation(values).tolist()
    assert found == pytest.approx([0.0, 0.5, 1.0, 1.0], abs=1e-6)
    below_zero = Constraint(ERROR, at_least=0.0).violation(-values[:1]).tolist()
    assert below_zero == pytest.approx([math.atan(3) * 2 / math.pi])


def test_a_bound_is_a_finite_number():
    with pytest.raises(MetricError, match="has the bound inf"):
        Constraint(ERROR, at_most=math.inf)


def test_the_guessed_noise_is_that_of_a_mean_of_exponential_errors():
    errors = torch.empty(400, 2000, dtype=torch.float64).exponential_(
        1 / 30.0, generator=torch.Generator().manual_seed(0)
    )
    assert binomial_std(30.0, ERROR, 400) == pytest.approx(float(errors.mean(0).std()), rel=0.1)
