import math

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from metricopt.adapters import FiLM, OutputAffine, adapt
from metricopt.core.errors import BudgetError, MetricFailureWarning, MetricOptWarning
from metricopt.data.dataset import Examples
from metricopt.metrics import Metric, aucpr_macro, g_mean, macro_f1, mcr, worst_group_accuracy
from metricopt.run.ledger import QueryLedger
from metricopt.search.starts import loss_starts
from metricopt.task.oracle import Oracle
from metricopt.task.supervised import SupervisedTask

CLASSES = 3


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def data(rows, seed):
    inputs = numbers(rows, 4, seed=seed)
    targets = (inputs[:, :CLASSES] + 0.7 * numbers(rows, CLASSES, seed=seed + 100)).argmax(1)
    return Examples(inputs, targets, torch.arange(rows) % 2)


def tiny_model():
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, CLASSES))
    for i, parameter in enumerate(net.parameters()):
        parameter.data = 0.5 * numbers(*parameter.shape, seed=i)
    return adapt(net, FiLM(dim=6) + OutputAffine(), example=torch.zeros(2, 4))


TRAIN, SEARCH = data(150, seed=1), data(90, seed=2)


def make(metric=None, **options):
    arguments = {"loss": cross_entropy, "train": TRAIN, "search": SEARCH} | options
    return SupervisedTask(tiny_model(), metric=mcr() if metric is None else metric, **arguments)


def population(task, size=5, seed=3):
    return 0.5 * numbers(size, task.dim, seed=seed)


def merged(task, phi):
    """A plain network that computes what the adapted one does at phi."""
    before = task.model.phi.detach().clone()
    task.model.phi.data.copy_(phi)
    net = task.model.merge()
    task.model.phi.data.copy_(before)
    return net.eval()


METRICS = {
    "mcr": mcr,
    "macro_f1": macro_f1,
    "g_mean": g_mean,
    "aucpr_macro": aucpr_macro,
    "worst_group_accuracy": worst_group_accuracy,
    "scikit-learn": lambda: Metric(lambda y, p: f1_score(y, p, average="macro"), on="labels", goal="max", name="f1"),
    "bounds": lambda: Metric(lambda _, z: float(z.mean()), on="logits", goal="min", bounds=(-20, 20), name="mean"),
}


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("rows_at_once", [1, 200, 10**6])
def test_costs_are_the_metrics_of_the_merged_models(name, rows_at_once):
    metric = METRICS[name]()
    task = make(metric, rows_at_once=rows_at_once)
    phi = population(task)
    costs = task.costs(phi)
    for cost, member in zip(costs.tolist(), phi, strict=True):
        with torch.no_grad():
            outputs = merged(task, member)(SEARCH.inputs)
        assert cost == pytest.approx(metric.cost(metric.value(outputs, SEARCH.targets, SEARCH.groups)), abs=1e-5)
    assert len(set(costs.tolist())) > 1


def test_the_loss_is_each_members_own_loss_on_its_own_batch_with_its_own_gradient():
    task = make(batch_size=16)
    phi = population(task).requires_grad_()
    inputs, targets = next(task.batches(5, torch.Generator().manual_seed(0)))
    losses = task.loss(phi, (inputs, targets))
    (gradient,) = torch.autograd.grad(losses.sum(), phi)
    for i in range(5):
        assert inputs[i].shape == (16, 4)
        with torch.no_grad():
            alone = cross_entropy(merged(task, phi[i].detach())(inputs[i]), targets[i])
        assert losses[i].item() == pytest.approx(float(alone), rel=1e-4)
        leaf = phi[i : i + 1].detach().clone().requires_grad_()
        (slope,) = torch.autograd.grad(task.loss(leaf, (inputs[i : i + 1], targets[i : i + 1])).sum(), leaf)
        torch.testing.assert_close(gradient[i], slope[0], atol=1e-6, rtol=1e-4)


def test_observing_charges_one_query_a_member_and_writes_the_answers_down():
    task = make()
    oracle = Oracle(task, QueryLedger(budget=12))
    phi = population(task)
    first = oracle.observe(phi, stage="probe")
    assert torch.equal(first, task.costs(phi))
    oracle.observe(phi, stage="probe")
    assert [query.cost for query in oracle.ledger.queries] == first.tolist() * 2
    assert {query.stage for query in oracle.ledger.queries} == {"probe"}
    with pytest.raises(BudgetError, match="'probe' asks for 5 metric queries, but 2 of 12 are left"):
        oracle.observe(phi, stage="probe")
    assert (oracle.ledger.used, len(oracle.ledger.queries)) == (10, 10)


def sometimes_failing(failure):
    """Error rate that fails on every second call."""
    calls = []

    def error_rate(y_true, labels):
        calls.append(1)
        if len(calls) % 2 == 0:
            return failure()
        return float(np.mean(y_true != labels))

    return Metric(error_rate, on="labels", goal="min")


def broken(*_):
    raise ZeroDivisionError("no positives")


@pytest.mark.parametrize("failure", [broken, lambda: math.nan, lambda: -7.0], ids=["raises", "nan", "too good"])
def test_a_failing_metric_is_warned_about_counts_and_gives_nan_for_its_member_only(failure):
    task = make(sometimes_failing(failure))
    oracle = Oracle(task)
    phi = population(task, size=3)
    with pytest.warns(MetricFailureWarning, match="member 1 of 3 failed"):
        costs = oracle.observe(phi)
    expected = make(mcr()).costs(phi)
    assert costs.isnan().tolist() == [False, True, False]
    torch.testing.assert_close(costs[[0, 2]], expected[[0, 2]])
    assert (oracle.ledger.used, oracle.ledger.failures) == (3, 1)


def test_a_value_worse_than_the_bounds_is_the_worst_cost_and_no_failure():
    task = make(sometimes_failing(lambda: 7.0))
    oracle = Oracle(task)
    with pytest.warns(MetricOptWarning, match="gave 7, outside its bounds.*counts as the worst"):
        costs = oracle.observe(population(task, size=3))
    assert float(costs[1]) == 1.0 and oracle.ledger.failures == 0


def test_a_member_that_diverged_is_nan_and_the_others_are_answered():
    task = make(macro_f1())
    oracle = Oracle(task)
    phi = population(task, size=3)
    phi[1] = math.nan
    with pytest.warns(MetricFailureWarning, match="member 1 of 3.*NaN"):
        costs = oracle.observe(phi)
    assert costs.isnan().tolist() == [False, True, False]


def error_rate_of(model, inputs, targets):
    assert not model.training and not torch.is_grad_enabled()
    return float((model(inputs).argmax(1) != targets).double().mean())


def test_a_metric_on_the_model_sees_each_member_and_phi_is_restored():
    task = make(Metric(error_rate_of, on="model", goal="min"))
    oracle = Oracle(task)
    task.model.phi.data.fill_(0.25)
    phi = population(task)
    torch.testing.assert_close(oracle.observe(phi), make(mcr()).costs(phi))
    assert torch.equal(task.model.phi.detach(), torch.full((task.dim,), 0.25))
    assert oracle.ledger.used == 5


def test_a_metric_on_the_model_that_fails_is_nan_and_phi_is_restored():
    task = make(Metric(broken, on="model", goal="min", name="broken"))
    oracle = Oracle(task)
    with pytest.warns(MetricFailureWarning, match="'broken'.*raised ZeroDivisionError: no positives"):
        costs = oracle.observe(population(task, size=2))
    assert costs.isnan().all() and oracle.ledger.failures == 2
    assert not task.model.phi.any()


def test_an_interrupted_metric_on_the_model_leaves_phi_restored():
    def interrupted(model, inputs, targets):
        raise KeyboardInterrupt

    task = make(Metric(interrupted, on="model", goal="min"))
    oracle = Oracle(task)
    with pytest.raises(KeyboardInterrupt):
        oracle.observe(population(task))
    assert not task.model.phi.any() and oracle.ledger.used == 5


@pytest.mark.parametrize("labels_visible", [False, True])
def test_directions_are_loss_gradients_of_each_class_split_by_loss(labels_visible):
    task = make(labels_visible=labels_visible)
    phi = population(task, size=1)[0]
    examples = SEARCH if labels_visible else TRAIN
    expected = []
    for label in range(CLASSES):
        mine = (examples.targets == label).nonzero().flatten()
        net = merged(task, phi)
        with torch.no_grad():
            losses = cross_entropy(net(examples.inputs[mine]), examples.targets[mine], reduction="none")
        order = mine[losses.argsort()]
        thirds = [[row for i, row in enumerate(order.tolist()) if i * 3 // len(order) == band] for band in range(3)]
        for rows in thirds:
            leaf = phi.clone().requires_grad_()
            loss = cross_entropy(task.model.outputs(leaf[None], examples.inputs[rows])[0], examples.targets[rows])
            expected.append(torch.autograd.grad(loss, leaf)[0])
    torch.testing.assert_close(task.probe().directions(phi), torch.stack(expected), atol=1e-5, rtol=1e-3)


def test_directions_of_sorted_data_still_know_every_class():
    order = TRAIN.targets.argsort()
    task = make(train=TRAIN.rows(order))
    found = task.probe().directions(torch.zeros(task.dim), rows=30)
    assert found.shape == (CLASSES * 3, task.dim)
    every_fifth = make(train=TRAIN.rows(order[::5]))
    torch.testing.assert_close(found, every_fifth.probe().directions(torch.zeros(task.dim)))


def test_directions_of_multi_label_targets_are_split_by_loss_alone():
    many = Examples(TRAIN.inputs, (numbers(150, CLASSES, seed=5) > 0).float())
    task = make(train=many, loss=binary_cross_entropy_with_logits)
    assert task.probe().directions(torch.zeros(task.dim)).shape == (3, task.dim)


def test_shift_coordinates_shift_one_output_each():
    task = make()
    where = task.probe().shift_coordinates
    assert where.tolist() == list(range(task.dim - CLASSES, task.dim))
    plain = task.outputs(torch.zeros(1, task.dim), SEARCH.inputs)[0]
    for column, coordinate in enumerate(where.tolist()):
        phi = torch.zeros(1, task.dim)
        phi[0, coordinate] = 2.0
        moved = task.outputs(phi, SEARCH.inputs)[0] - plain
        expected = torch.zeros_like(moved)
        expected[:, column] = 2.0
        torch.testing.assert_close(moved, expected, atol=1e-5, rtol=0)


def test_an_adapter_without_output_shifts_has_no_shift_coordinates():
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, CLASSES))
    task = SupervisedTask(adapt(net, FiLM(dim=6)), loss=cross_entropy, metric=mcr(), train=TRAIN, search=SEARCH)
    assert task.probe().shift_coordinates.shape == (0,)


@pytest.fixture
def often(monkeypatch):
    """Resamples enough for their spread to be compared with a formula."""
    monkeypatch.setattr("metricopt.task.noise._NOISE_RESAMPLES", 1000)
    monkeypatch.setattr("metricopt.task.noise._DOUBT_RESAMPLES", 1000)


@pytest.mark.usefixtures("often")
def test_the_noise_of_an_error_rate_is_its_binomial_standard_error():
    task = make(search=data(400, seed=2))
    oracle = Oracle(task)
    error = float(task.costs(torch.zeros(1, task.dim)))
    expected = math.sqrt(error * (1 - error) / 400)
    assert oracle.noise_std() == pytest.approx(expected, rel=0.1)
    assert (oracle.ledger.resamples, oracle.ledger.used) == (1000, 0)


def test_the_noise_of_a_metric_with_groups_or_on_the_model_is_known_too():
    assert 0 < Oracle(make(worst_group_accuracy())).noise_std() < 0.2
    of_model = Oracle(make(Metric(error_rate_of, on="model", goal="min")))
    assert of_model.noise_std() == pytest.approx(0.5 / math.sqrt(90))


def test_a_metric_that_fails_on_every_resample_is_taken_to_be_as_noisy_as_can_be():
    task = make(Metric(broken, on="labels", goal="min", name="broken"))
    with pytest.warns(MetricFailureWarning, match="failed"):
        assert Oracle(task).noise_std() == pytest.approx(0.5 / math.sqrt(90))


def test_balanced_sampling_draws_each_class_equally_often():
    few = torch.cat(
        [(TRAIN.targets == label).nonzero().flatten()[:count] for label, count in ((0, 40), (1, 3), (2, 1))]
    )
    task = make(train=TRAIN.rows(few), sampling="balanced", batch_size=5000)
    _, targets = next(task.batches(2, torch.Generator().manual_seed(0)))
    for label in range(CLASSES):
        share = float((targets == label).double().mean())
        assert abs(share - 1 / 3) < 4 * math.sqrt(2 / 9 / 10_000)


def test_of_finetuning_on_the_metrics_own_labels_the_point_with_the_lowest_loss_on_rows_left_out_is_taken():
    task = make(labels_visible=True)
    good = loss_starts(task.probe(), steps=60, lr=0.05, generator=torch.Generator().manual_seed(0))[-1]
    far, broken = 100 * torch.ones(task.dim), torch.full((task.dim,), torch.nan)
    path = torch.stack([torch.stack([good, far, far, far]), torch.stack([far, good, good, broken])])
    assert torch.equal(
        task.probe().sound_starts(path), torch.stack([far, good, good])
    )  # of the last kind nothing is sound
    assert torch.equal(task.probe().sound_starts(path.flip(0)[:, [0, 1, 2, 2]]), torch.stack([good, far, good, good]))
    hidden = make(labels_visible=False)
    assert torch.equal(hidden.probe().sound_starts(path[:, :2]), path[-1, :2])


@pytest.mark.parametrize(("labels_visible", "kinds"), [(False, 2), (True, 4)])
def test_loss_finetuning_may_follow_plain_or_balanced_batches_of_all_data_whose_labels_are_visible(
    labels_visible, kinds
):
    lopsided = TRAIN.rows((TRAIN.targets * torch.arange(150) % 7 == 0).nonzero().flatten())  # mostly class 0
    task = make(train=lopsided, labels_visible=labels_visible, batch_size=3000, cache=0)
    count, batches = task.probe().start_batches(torch.Generator().manual_seed(0))
    inputs, targets = next(batches)
    assert count == len(inputs) == len(targets) == kinds
    seen = SEARCH.rows(torch.arange(0, len(SEARCH), 2))  # the others say whether finetuning on these was sound
    sources = [lopsided, lopsided, seen, seen]
    for kind in range(kinds):
        known = {tuple(row) for row in sources[kind].inputs.tolist()}
        assert {tuple(row) for row in inputs[kind].tolist()} == known
        share = float((targets[kind] == 0).double().mean())
        expected = 1 / 3 if kind % 2 else float((sources[kind].targets == 0).double().mean())
        assert abs(share - expected) < 4 * math.sqrt(expected * (1 - expected) / 3000)


def test_targets_that_are_no_classes_are_followed_plainly():
    many = Examples(TRAIN.inputs, (numbers(150, CLASSES, seed=5) > 0).float())
    task = make(train=many, loss=binary_cross_entropy_with_logits, batch_size=8)
    count, batches = task.probe().start_batches(torch.Generator().manual_seed(0))
    assert count == 1 and next(batches)[1].shape == (1, 8, CLASSES)


def test_squared_distances_of_responses_are_mean_hellinger_distances_of_the_predictions():
    task = make()
    phi = population(task, size=2)
    probe = task.probe()
    a, b = probe.responses(probe.shown(phi, rows=20))
    # At most 20 of the 90 rows, evenly spread: sorted data would show one class only at their beginning.
    p, q = task.outputs(phi, SEARCH.inputs[::5]).double().softmax(-1).tolist()
    rows = [
        sum(4 * (math.sqrt(x) - math.sqrt(y)) ** 2 for x, y in zip(*pair, strict=True))
        for pair in zip(p, q, strict=True)
    ]
    assert float((a - b).square().sum()) == pytest.approx(sum(rows) / 18, rel=1e-4)


@pytest.mark.usefixtures("often")
def test_the_doubt_about_a_gain_is_the_paired_standard_error_of_a_difference_of_errors():
    task = make(search=data(400, seed=2))
    phi, other = population(task, size=2)
    wrong = (task.outputs(torch.stack([phi, other]), task.search.inputs).argmax(-1) != task.search.targets).double()
    difference = wrong[0] - wrong[1]
    expected = float(difference.std()) / math.sqrt(400)
    oracle = Oracle(task)
    assert oracle.doubt(phi, other) == pytest.approx(expected, rel=0.1)
    assert oracle.doubt(other, other) == 0.0
    assert oracle.ledger.used == 0


def test_the_doubt_does_not_depend_on_what_was_asked_before():
    oracle, fresh = Oracle(make()), Oracle(make())
    a, b, c = population(oracle.task, size=3)
    asked = [oracle.doubt(*each) for each in ((a, b), (c, b), (a, c), (a, b))]
    assert asked[0] == asked[3] == fresh.doubt(a, b)


def test_the_doubt_is_without_end_where_the_metric_answers_nothing():
    task = make(Metric(broken, on="labels", goal="min"))
    with pytest.warns(MetricFailureWarning):
        assert Oracle(task).doubt(*population(task, size=2)) == math.inf


def test_members_and_resamples_in_small_parts_give_the_same_answers(monkeypatch):
    whole, parts = make(), make()
    phi = population(whole, 7)
    asked, asked_in_parts = Oracle(whole), Oracle(parts)
    expected = asked.observe(phi), whole.costs(phi), asked.noise_std(), asked.doubt(phi[0], phi[1])
    monkeypatch.setattr("metricopt.task.supervised._ROWS_IN_MEMORY", 3 * len(SEARCH))
    found = (
        asked_in_parts.observe(phi),
        parts.costs(phi),
        asked_in_parts.noise_std(),
        asked_in_parts.doubt(phi[0], phi[1]),
    )
    assert parts.members_at_once == 3
    assert all(torch.equal(torch.as_tensor(a), torch.as_tensor(b)) for a, b in zip(expected, found, strict=True))
    assert asked_in_parts.ledger.queries == asked.ledger.queries and asked_in_parts.ledger.used == 7


def test_of_very_many_outputs_fewer_rows_are_shown():
    inputs = numbers(500, 4, seed=1)
    many = Examples(inputs, torch.arange(500))
    model = adapt(torch.nn.Linear(4, 500), OutputAffine(), example=inputs[:2])
    task = SupervisedTask(model, loss=cross_entropy, metric=mcr(), train=many, search=many)
    shown = task.probe().shown(torch.zeros(2, task.dim), rows=1000)
    assert shown.shape == (2, 100, 500)
    torch.testing.assert_close(shown[0], model.net(inputs[::5]).detach())
