"""What every registered loss promises: a scalar for the usual shapes, true gradients, and safety under vmap."""

import pytest
import torch
from torch.func import grad, vmap

from metricopt.core.errors import DataError
from metricopt.losses import LOSSES

SHAPES = {"(n,)": (7,), "(n, 1)": (7, 1), "(n, 2)": (7, 2), "(n, classes)": (7, 4)}


def drawn(shape, population=None):
    generator = torch.Generator().manual_seed(0)
    leading = () if population is None else (population,)
    outputs = torch.randn(*leading, *shape, generator=generator, dtype=torch.float64)
    classes = max(shape[1] if len(shape) == 2 else 2, 2)
    return outputs, torch.randint(classes, (*leading, shape[0]), generator=generator)


# About ranks, which small changes of the outputs leave as they are: tests/losses checks their gradient.
BLACK_BOX = {"recall"}


def accepted(loss):
    """Shapes the loss takes: any of two classes, or embeddings; if it refuses some, it says what it met."""
    refused = {}
    for shape, sizes in SHAPES.items():
        try:
            loss(*drawn(sizes))
        except DataError as error:
            refused[shape] = str(error)
    if "(n, classes)" in refused:
        assert list(refused) == ["(n, classes)"] and "4 output columns" in refused["(n, classes)"]
    elif refused:
        assert list(refused) == ["(n,)", "(n, 1)"] and all("expected embeddings" in said for said in refused.values())
    return [shape for shape in SHAPES if shape not in refused]


PAIRS = [(name, shape) for name, loss in LOSSES.items() for shape in accepted(loss)]
with_outputs = pytest.mark.parametrize(
    ("loss", "shape"),
    [(LOSSES[name], SHAPES[shape]) for name, shape in PAIRS],
    ids=[f"{name}-{shape}" for name, shape in PAIRS],
)
with_slopes = pytest.mark.parametrize(
    ("loss", "shape"),
    [(LOSSES[name], SHAPES[shape]) for name, shape in PAIRS if name not in BLACK_BOX],
    ids=[f"{name}-{shape}" for name, shape in PAIRS if name not in BLACK_BOX],
)


@with_outputs
def test_it_is_a_finite_scalar_that_is_not_negative(loss, shape):
    value = loss(*drawn(shape))
    assert value.shape == () and value.dtype == torch.float64
    assert bool(value.isfinite()) and float(value) >= 0


@with_slopes
def test_its_gradient_is_that_of_finite_differences(loss, shape):
    outputs, targets = drawn(shape)
    assert torch.autograd.gradcheck(lambda given: loss(given, targets), outputs.requires_grad_())


@with_outputs
def test_under_vmap_values_and_gradients_are_those_of_a_loop(loss, shape):
    outputs, targets = drawn(shape, population=5)
    values = torch.stack([loss(o, t) for o, t in zip(outputs, targets, strict=True)])
    torch.testing.assert_close(vmap(loss)(outputs, targets), values)
    torch.testing.assert_close(vmap(loss, (0, None))(outputs, targets[0])[0], values[0])
    looped = torch.stack([grad(loss)(o, t) for o, t in zip(outputs, targets, strict=True)])
    torch.testing.assert_close(vmap(grad(loss))(outputs, targets), looped)
    assert bool((looped != 0).any())


@pytest.mark.parametrize("label", [0, 1])
@with_outputs
def test_a_batch_of_one_class_has_a_finite_loss_and_gradient(loss, shape, label):
    outputs, targets = drawn(shape)
    outputs.requires_grad_()
    value = loss(outputs, torch.full_like(targets, label))
    value.backward()
    assert bool(value.isfinite()) and bool(outputs.grad.isfinite().all())


@with_slopes
def test_stepping_against_the_gradient_lowers_it(loss, shape):
    outputs, targets = drawn(shape)
    slope = grad(loss)(outputs, targets)
    assert float(loss(outputs - 1e-3 * slope, targets)) < float(loss(outputs, targets))


@with_outputs
def test_targets_may_be_floats_or_a_column(loss, shape):
    outputs, targets = drawn(shape)
    value = loss(outputs, targets)
    assert torch.equal(loss(outputs, targets.double()), value)
    assert torch.equal(loss(outputs, targets.unsqueeze(1)), value)


@with_outputs
def test_the_order_of_examples_does_not_matter(loss, shape):
    outputs, targets = drawn(shape)
    torch.testing.assert_close(loss(outputs.flip(0), targets.flip(0)), loss(outputs, targets))


@with_outputs
def test_targets_of_another_length_are_refused(loss, shape):
    outputs, targets = drawn(shape)
    with pytest.raises(DataError, match="do not go together"):
        loss(outputs, targets[:-1])
