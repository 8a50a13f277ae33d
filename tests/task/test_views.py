import pytest
import torch
from sklearn.metrics import average_precision_score, f1_score

from metricopt.metrics import METRICS
from metricopt.task.views import LABELS, PROBABILITIES, PROBABILITY_RANKS, RANKS, RAW, views_of


def outputs(columns, seed=0, rows=40, members=3):
    return torch.randn(members, rows, columns, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("columns", [1, 4])
def test_models_that_say_the_same_classes_look_the_same_and_others_do_not(columns):
    some = outputs(columns)
    louder = LABELS.features(3 * some)
    assert torch.equal(LABELS.features(some), louder)
    assert not torch.equal(LABELS.features(some), LABELS.features(some.flip(1)))


def test_the_squared_distance_of_two_views_of_classes_counts_the_rows_that_differ():
    some = outputs(5, members=2)
    one, two = LABELS.features(some)
    differ = int((some[0].argmax(-1) != some[1].argmax(-1)).sum())
    assert float((one - two).square().sum()) == pytest.approx(2 * differ / 40)
    yes, no = LABELS.features(outputs(1, members=2))
    assert float((yes - no).square().sum()) == pytest.approx(
        float((outputs(1, members=2)[0] > 0).ne(outputs(1, members=2)[1] > 0).float().mean())
    )


@pytest.mark.parametrize("view", [RANKS, PROBABILITY_RANKS])
def test_ranks_see_the_order_only(view):
    some = outputs(1)
    assert torch.equal(view.features(some), view.features(torch.exp(2 * some) - 5))
    assert not torch.equal(view.features(some), view.features(-some))


def test_ranks_of_outputs_see_a_shift_of_a_rows_logits_and_those_of_probabilities_do_not():
    some = outputs(3)
    shifted = some + torch.linspace(-4, 4, 40)[:, None]
    torch.testing.assert_close(PROBABILITY_RANKS.features(some), PROBABILITY_RANKS.features(shifted), atol=0.01, rtol=0)
    assert float((RANKS.features(some) - RANKS.features(shifted)).norm()) > 0.1


def test_equal_views_mean_equal_metrics():
    truth = (torch.rand(40, generator=torch.Generator().manual_seed(1)) < 0.4).numpy()
    some = outputs(1)[0, :, 0]
    same_classes, same_order = 7 * some, some.exp()
    assert f1_score(truth, some > 0) == f1_score(truth, same_classes > 0)
    assert average_precision_score(truth, some) == average_precision_score(truth, same_order)


@pytest.mark.parametrize("view", [LABELS, PROBABILITIES, RANKS, PROBABILITY_RANKS, RAW], ids=lambda view: view.name)
@pytest.mark.parametrize("columns", [1, 3])
def test_the_stand_in_has_the_same_shape_and_moves_the_same_way(view, columns):
    some = outputs(columns).requires_grad_()
    smooth = view.smooth_features(some)
    exact = view.features(some.detach())
    assert smooth.shape == exact.shape
    # They agree about which rows and columns have more of what is seen.
    together = torch.stack([smooth.detach().flatten(), exact.flatten()])
    assert float(torch.corrcoef(together)[0, 1]) > 0.7
    (gradient,) = torch.autograd.grad(smooth.square().sum(), some)
    assert bool(torch.isfinite(gradient).all()) and bool(gradient.any())


def test_every_named_metric_has_views():
    assert all(views_of(METRICS[name]().on) for name in METRICS)


@pytest.mark.parametrize("view", [LABELS, PROBABILITIES, RANKS, PROBABILITY_RANKS, RAW], ids=lambda view: view.name)
def test_outputs_that_overflowed_are_seen_as_something_finite(view):
    broken = outputs(3)
    broken[0, :5], broken[1, 3], broken[2, 0] = torch.nan, torch.inf, -torch.inf
    assert bool(torch.isfinite(view.features(broken)).all())
