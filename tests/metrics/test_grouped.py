import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from metricopt.core.errors import MetricError
from metricopt.metrics import labels_of, worst_group_accuracy


def smallest_accuracy(y_true, labels, groups):
    return min(np.mean(y_true[groups == g] == labels[groups == g]) for g in np.unique(groups))


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 15), columns=st.integers(0, 4))
def test_it_is_the_smallest_accuracy_found_by_looping_over_groups(seed, n, columns):
    generator = torch.Generator().manual_seed(seed)
    outputs = torch.randn((3, n, columns) if columns else (3, n), generator=generator)
    targets = torch.randint(max(columns, 2), (3, n, 1), generator=generator)
    groups = torch.randint(4, (3, n), generator=generator) * 10 - 5  # any numbers, absent ones too
    rows = zip(targets.squeeze(-1).numpy(), labels_of(outputs).numpy(), groups.numpy(), strict=True)
    expected = [smallest_accuracy(*row) for row in rows]
    np.testing.assert_allclose(worst_group_accuracy().values(outputs, targets, groups), expected, atol=1e-9, rtol=0)


def test_a_group_missing_in_one_resample_is_left_out_there():
    outputs, targets = torch.ones(2, 2), torch.tensor([[1, 0], [1, 1]])
    groups = torch.tensor([[0, 1], [0, 0]])
    assert worst_group_accuracy().values(outputs, targets, groups).tolist() == [0.0, 1.0]


def test_without_groups_it_says_what_is_missing():
    with pytest.raises(MetricError, match="'worst_group_accuracy' needs the group"):
        worst_group_accuracy().value(torch.ones(2), torch.ones(2))


def test_groups_of_another_length_are_refused():
    with pytest.raises(MetricError, match="groups of shape"):
        worst_group_accuracy().value(torch.ones(2), torch.ones(2), torch.ones(3))
