import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import jaccard_score

from metricopt.core.errors import DataError
from metricopt.losses import jaccard_extension, lovasz_hinge, lovasz_softmax


def jaccard_loss(mistaken, positive):
    """One minus the Jaccard index of the positives, when just the `mistaken` are labelled wrongly."""
    predicted = [p != m for p, m in zip(positive, mistaken, strict=True)]
    both = sum(p and q for p, q in zip(positive, predicted, strict=True))
    either = sum(p or q for p, q in zip(positive, predicted, strict=True))
    return 1 - both / either if either else 0.0


def extension(errors, positive):
    """Lovász extension by its definition as an integral over level sets: of loss({e > level}) over the level."""
    levels = [0.0, *sorted(errors)]
    return sum(
        (high - low) * jaccard_loss([error > low for error in errors], positive)
        for low, high in itertools.pairwise(levels)
    )


@st.composite
def errors_and_positives(draw):
    n = draw(st.integers(1, 7))
    errors = draw(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.5]) | st.floats(0, 3), min_size=n, max_size=n))
    return errors, draw(st.lists(st.booleans(), min_size=n, max_size=n))


@settings(deadline=None)
@given(errors_and_positives())
def test_the_extension_is_the_integral_over_level_sets_ties_and_no_positives_included(case):
    errors, positive = case
    found = jaccard_extension(torch.tensor(errors).double().unsqueeze(1), torch.tensor(positive).unsqueeze(1))
    assert float(found) == pytest.approx(extension(errors, positive), abs=1e-6)


@pytest.mark.parametrize("positive", list(itertools.product([False, True], repeat=4)))
def test_where_errors_are_zero_or_one_the_extension_is_the_jaccard_loss(positive):
    for mistaken in itertools.product([False, True], repeat=4):
        found = jaccard_extension(torch.tensor(mistaken).double().unsqueeze(1), torch.tensor(positive).unsqueeze(1))
        assert float(found) == pytest.approx(jaccard_loss(mistaken, positive), abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 8))
def test_the_hinge_is_the_extension_at_the_hinge_errors_and_bounds_the_jaccard_loss(seed, n):
    generator = torch.Generator().manual_seed(seed)
    outputs = torch.randn(n, generator=generator, dtype=torch.float64)
    targets = torch.randint(2, (n,), generator=generator)
    errors = [max(0.0, 1 - (2 * t - 1) * o) for o, t in zip(outputs.tolist(), targets.tolist(), strict=True)]
    loss = float(lovasz_hinge(outputs, targets))
    assert loss == pytest.approx(extension(errors, (targets == 1).tolist()), abs=1e-12)
    mistaken = [(o > 0) != bool(t) for o, t in zip(outputs.tolist(), targets.tolist(), strict=True)]
    assert loss >= jaccard_loss(mistaken, (targets == 1).tolist()) - 1e-12


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 8), columns=st.integers(0, 4))
def test_the_softmax_form_is_the_mean_extension_over_the_classes_present(seed, n, columns):
    generator = torch.Generator().manual_seed(seed)
    outputs = torch.randn((n, columns) if columns else (n,), generator=generator, dtype=torch.float64)
    targets = torch.randint(max(columns, 2), (n,), generator=generator)
    if columns < 2:
        p = outputs.reshape(-1).sigmoid()
        scores = torch.stack([1 - p, p], dim=1).numpy()
    else:
        scores = outputs.softmax(1).numpy()
    expected = np.mean(
        [extension(np.abs((targets.numpy() == c) - scores[:, c]), (targets == c).tolist()) for c in np.unique(targets)]
    )
    assert float(lovasz_softmax(outputs, targets)) == pytest.approx(expected, abs=1e-12)


def test_for_certain_predictions_the_softmax_form_is_one_minus_the_mean_jaccard_index():
    targets, labels = torch.tensor([0, 0, 1, 1, 2, 2, 2]), torch.tensor([0, 1, 1, 1, 2, 0, 2])
    outputs = 1000.0 * torch.nn.functional.one_hot(labels, 3).double()
    expected = 1 - jaccard_score(targets, labels, average="macro")
    assert float(lovasz_softmax(outputs, targets)) == pytest.approx(expected, abs=1e-12)


def test_two_columns_have_the_hinge_of_their_difference():
    generator = torch.Generator().manual_seed(0)
    outputs, targets = torch.randn(9, 2, generator=generator), torch.randint(2, (9,), generator=generator)
    assert torch.equal(lovasz_hinge(outputs, targets), lovasz_hinge(outputs[:, 1] - outputs[:, 0], targets))


def test_three_classes_have_no_hinge():
    with pytest.raises(DataError, match="lovasz_hinge met 3 output columns"):
        lovasz_hinge(torch.zeros(2, 3), torch.tensor([0, 2]))
