"""What every registered metric promises: facts that are true, and a batched form that equals the single one."""

import pickle

import pytest
import torch

from metricopt.core.errors import MetricError, MetricFailureWarning
from metricopt.metrics import METRICS, Metric, as_metric

N = 40
# Those about boxes are no functions of classes: their own tests are in tests/metrics/test_detection.py.
NAMES = [name for name in METRICS if METRICS[name]().on != "outputs"]
COLUMNS = {"(n,)": 0, "(n, 1)": 1, "(n, 2)": 2, "(n, classes)": 7}
EMBEDDINGS = {"(n, 2)": 2, "(n, classes)": 7}


def drawn(columns, *, population=6, seed=0, good=0.0, spread=False):
    """Tied outputs (none equal if `spread`), more often right the larger `good`, with shared targets and groups."""
    generator = torch.Generator().manual_seed(seed)
    classes = max(columns, 2)
    targets = torch.cat([torch.arange(classes), torch.randint(classes, (N - classes,), generator=generator)])
    shape = (population, N, columns) if columns else (population, N)
    outputs = torch.randint(-4, 5, shape, generator=generator).double()
    outputs += torch.randn(shape, generator=generator) if spread else 0.0
    if columns > 1:
        outputs = outputs + good * torch.nn.functional.one_hot(targets, columns)
    else:
        outputs = outputs + good * (2.0 * targets - 1).reshape(outputs.shape[1:])
    return outputs, targets, torch.randint(3, (N,), generator=generator)


def accepted(metric):
    """Output shapes the metric takes; the others it refuses with its own error, naming itself."""
    shapes = set()
    for shape, columns in COLUMNS.items():
        try:
            metric.values(*drawn(columns, spread=metric.on == "embeddings"))
        except MetricError as error:
            assert repr(metric.name) in str(error)
        else:
            shapes.add(shape)
    return shapes


@pytest.fixture(params=NAMES)
def metric(request):
    return METRICS[request.param]()


PAIRS = [(name, shape) for name in NAMES for shape in COLUMNS if shape in accepted(METRICS[name]())]
with_outputs = pytest.mark.parametrize(
    ("metric", "columns"),
    [(METRICS[name](), COLUMNS[shape]) for name, shape in PAIRS],
    ids=[f"{name}-{shape}" for name, shape in PAIRS],
)


def test_it_takes_every_form_of_two_classes_or_none_and_many_classes_if_not_two(metric):
    shapes = accepted(metric)
    if metric.on == "embeddings":
        assert shapes == set(EMBEDDINGS)
        return
    assert shapes & {"(n,)", "(n, 1)", "(n, 2)"} in (set(), {"(n,)", "(n, 1)", "(n, 2)"})
    assert shapes


def test_every_metric_is_reached_by_its_name_and_has_a_batched_form(metric):
    assert isinstance(metric, Metric) and metric.batched is not None
    assert metric.on != "model" and metric.goal in ("max", "min") and metric.bounds == (0.0, 1.0)
    assert repr(as_metric(metric)) == repr(metric)


@with_outputs
def test_the_population_is_measured_as_its_members_are(metric, columns):
    outputs, targets, groups = drawn(columns, spread=metric.on == "embeddings")
    values = metric.values(outputs, targets, groups)
    assert values.shape == (len(outputs),) and values.dtype == torch.float64
    alone = torch.tensor([metric.value(o, targets, groups) for o in outputs], dtype=torch.float64)
    torch.testing.assert_close(values, alone, atol=1e-9, rtol=0)


@with_outputs
def test_resampled_rows_of_each_member_are_measured_as_its_own(metric, columns):
    outputs, targets, groups = drawn(columns, spread=metric.on == "embeddings")
    generator = torch.Generator().manual_seed(1)
    rows = torch.randint(N, (len(outputs), N), generator=generator)
    rows[:, :10] = torch.arange(10)  # every class stays present
    resampled = torch.stack([o[r] for o, r in zip(outputs, rows, strict=True)])
    values = metric.values(resampled, targets[rows], groups[rows])
    alone = [metric.value(o, targets[r], groups[r]) for o, r in zip(resampled, rows, strict=True)]
    torch.testing.assert_close(values, torch.tensor(alone, dtype=torch.float64), atol=1e-9, rtol=0)


@with_outputs
def test_the_order_of_examples_does_not_matter(metric, columns):
    outputs, targets, groups = drawn(columns, spread=metric.on == "embeddings")
    flipped = metric.values(outputs.flip(1), targets.flip(0), groups.flip(0))
    torch.testing.assert_close(flipped, metric.values(outputs, targets, groups), atol=1e-9, rtol=0)


@with_outputs
def test_perfect_predictions_cost_least_and_wrong_ones_more(metric, columns):
    if metric.on == "embeddings":  # whatever sets classes apart is right
        assert metric.values(*drawn(columns, good=100.0)).tolist() == [1.0] * 6
        assert bool((metric.values(*drawn(columns, spread=True)) < 0.7).all())
        return
    perfect = metric.cost(metric.values(*drawn(columns, good=100.0)))
    wrong = metric.cost(metric.values(*drawn(columns, good=-100.0)))
    # Half of the examples are positive, so any top tenth can be full of them.
    torch.testing.assert_close(perfect, torch.zeros_like(perfect), atol=1e-9, rtol=0)
    assert bool((wrong > 0.3).all()) and bool((wrong <= 1).all())


@with_outputs
def test_better_predictions_are_better_by_its_goal(metric, columns):
    spread = metric.on == "embeddings"
    before = metric.values(*drawn(columns, good=0.0, spread=spread)).mean()
    after = metric.values(*drawn(columns, good=8.0 if spread else 4.0, spread=spread)).mean()
    assert metric.better(float(after), float(before))
    assert float(metric.cost(after)) < float(metric.cost(before))


@with_outputs
def test_float32_outputs_and_float_targets_change_nothing(metric, columns):
    outputs, targets, groups = drawn(columns, spread=metric.on == "embeddings")
    values = metric.values(outputs, targets, groups)
    torch.testing.assert_close(metric.values(outputs.float(), targets.double(), groups), values, atol=1e-9, rtol=0)
    torch.testing.assert_close(metric.values(outputs, targets.unsqueeze(1), groups), values, atol=1e-9, rtol=0)


@with_outputs
def test_a_diverged_member_is_unknown_and_the_others_are_not_touched(metric, columns):
    outputs, targets, groups = drawn(columns, spread=metric.on == "embeddings")
    values = metric.values(outputs, targets, groups)
    outputs[1] = torch.nan
    with pytest.warns(MetricFailureWarning, match="member 1 of 6"):
        found = metric.values(outputs, targets, groups, failures="nan")
    assert found.isnan().tolist() == [False, True, False, False, False, False]
    keep = ~found.isnan()
    assert torch.equal(found[keep], values[keep])


@with_outputs
def test_it_can_be_sent_to_another_process(metric, columns):
    cases = drawn(columns, spread=metric.on == "embeddings")
    assert torch.equal(pickle.loads(pickle.dumps(metric)).values(*cases), metric.values(*cases))
