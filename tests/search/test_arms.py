import torch

from metricopt.search.archive import Archive
from metricopt.search.arms import ShiftArm
from metricopt.search.recipe import Recipe
from metricopt.search.value_arm import ValueArm
from metricopt.task.base import Task
from metricopt.task.oracle import Oracle
from metricopt.task.probe import Probe
from metricopt.task.quadratic import QuadraticTask
from metricopt.task.views import LABELS

FAST = Recipe(candidates=80)


class Noise(Task):
    """Costs that have nothing to do with phi."""

    dim = 4

    def __init__(self):
        self._draw = torch.Generator().manual_seed(0)

    def batches(self, population, generator):
        raise NotImplementedError

    def loss(self, phi, batch):
        raise NotImplementedError

    def costs(self, phi):
        return torch.rand(len(phi), generator=self._draw)


def archive_of(oracle, queries, start=None):
    archive = Archive(oracle, queries)
    archive.observe(torch.zeros(1, oracle.dim) if start is None else start, stage="start", plain=True)
    return archive


def value_arm(oracle, recipe=FAST, landmarks=None):
    landmarks = torch.zeros(1, oracle.dim) if landmarks is None else landmarks
    return ValueArm(oracle, recipe, landmarks=landmarks, generator=torch.Generator().manual_seed(0))


def test_shifts_change_one_shift_coordinate_at_a_time_up_and_down_from_the_best_point():
    task = QuadraticTask(dim=6, shifts=3)
    oracle = Oracle(task)
    archive, arm = archive_of(oracle, 61), ShiftArm(oracle.probe.shift_coordinates, rows=10)
    for turn in range(30):
        best, before = archive.best.clone(), len(archive.costs)
        arm.pull(archive)
        up_and_down = archive.points[before:] - best
        assert (up_and_down != 0).any(0).nonzero().flatten().tolist() in ([3 + turn % 3], [])
        if len(up_and_down) == 2:  # the way back is not asked again
            torch.testing.assert_close(up_and_down[0], -up_and_down[1])
    assert not archive.points[:, :3].any()
    assert len(torch.unique((1e4 * archive.points).round(), dim=0)) == len(archive.points)
    # The cost is round, so one coordinate after the other is enough to find the best shifts.
    assert float((archive.best - task.optimum)[3:].abs().max()) < 0.1
    assert {query.stage for query in oracle.ledger.queries[1:]} == {"shift"}


def test_shifts_halve_once_none_of_them_gained_and_end_when_they_are_too_small():
    task = QuadraticTask(dim=3, shifts=2)
    oracle = Oracle(task)
    archive, arm = archive_of(oracle, 100, start=task.optimum[None]), ShiftArm(oracle.probe.shift_coordinates, rows=10)
    sizes = []
    while not arm.spent:
        arm.pull(archive)
        sizes.append(round(float((archive.points[-1] - task.optimum).abs().max()), 6))
    assert sizes == [1.0, 1.0, 0.5, 0.5, 0.25, 0.25, 0.125, 0.125, 0.0625, 0.0625, 0.03125, 0.03125]
    assert torch.equal(archive.best, task.optimum)


def test_the_value_arm_stays_near_the_best_point_and_finds_the_optimum():
    oracle = Oracle(QuadraticTask(dim=5))
    archive, arm = archive_of(oracle, 101), value_arm(oracle)
    radius = FAST.radius
    while archive.left:
        best, before = archive.best.clone(), len(archive.costs)
        arm.pull(archive)
        radius = min(1.6 * radius, 2.0)  # what it may have grown to at most
        # Whitened coordinates are phi's own here: a task without predictions responds with phi.
        assert float((archive.points[before:] - best).norm(dim=1).max()) <= 1.5 * radius + 1e-4
    assert archive.best_cost < 0.01  # within 0.15 of the optimum, which is 1 away from the start


def test_forecasts_are_made_before_the_answers_are_known_and_agree_with_them_on_a_smooth_cost():
    oracle = Oracle(QuadraticTask(dim=4))
    notes = []
    oracle.ledger.note = lambda kind, fields: notes.append((kind, fields))
    archive, arm = archive_of(oracle, 81), value_arm(oracle)
    while archive.left:
        arm.pull(archive)
    forecasts = [fields for kind, fields in notes if kind == "forecast"]
    predicted, true = (torch.tensor([x for fields in forecasts for x in fields[key]]) for key in ("predicted", "true"))
    torch.testing.assert_close(true, archive.costs[-len(true) :])
    assert forecasts[-1]["first"] + len(forecasts[-1]["true"]) == 81
    assert float((predicted - true)[20:].abs().mean()) < 0.05


def test_the_held_out_correlation_is_high_on_a_smooth_cost_and_near_zero_on_noise():
    smooth, noise = Oracle(QuadraticTask(dim=4)), Oracle(Noise())
    found = {}
    for oracle in (smooth, noise):
        archive = Archive(oracle, 120)
        archive.observe(torch.randn(120, 4, generator=torch.Generator().manual_seed(1)), stage="start")
        found[oracle] = value_arm(oracle).held_out_correlation(archive)
    assert found[smooth] > 0.95
    assert abs(found[noise]) < 3 / 120**0.5  # the deviation of a rank correlation of 120 independent pairs: 0.09


def test_the_held_out_correlation_of_a_handful_of_queries_is_unknown():
    oracle = Oracle(QuadraticTask(dim=4))
    archive = Archive(oracle, 19)
    archive.observe(torch.randn(19, 4, generator=torch.Generator().manual_seed(1)), stage="start")
    assert value_arm(oracle).held_out_correlation(archive) == 0.0


def test_failed_queries_are_left_out_of_the_value_function():
    class Holes(Task):
        dim = 4

        def __init__(self):
            self.inner = QuadraticTask(dim=4)

        def batches(self, population, generator):
            raise NotImplementedError

        def loss(self, phi, batch):
            raise NotImplementedError

        def costs(self, phi):
            costs = self.inner.costs(phi)
            costs[::4] = torch.nan
            return costs

    oracle = Oracle(Holes())
    archive = Archive(oracle, 101)
    archive.observe(torch.zeros(2, 4), stage="start")
    arm = value_arm(oracle)
    while archive.left:
        arm.pull(archive)
    assert archive.costs.isnan().sum() > 20
    assert arm.value is not None and bool(torch.isfinite(arm.value(torch.zeros(1, 4))).all())
    assert archive.best_cost < 0.05


class Thresholds(Task):
    """Two outputs on 50 rows, of which the first is the larger unless phi shifts it; the metric sees the classes."""

    def __init__(self, gap, dim=2):
        self.gap, self.dim = gap, dim

    def batches(self, population, generator):
        raise NotImplementedError

    def loss(self, phi, batch):
        raise NotImplementedError

    def outputs(self, phi, rows):
        return torch.tensor([self.gap, 0.0]) * torch.linspace(1, 2, rows)[:, None] + phi[:, None, :2]

    def costs(self, phi):
        return 1.0 - (self.outputs(phi, 50).argmax(-1) == 1).double().mean(1)

    def probe(self):
        return Seen(self)


class Seen(Probe):
    views = (LABELS,)

    def shown(self, phi, *, rows):
        return self.task.outputs(phi, rows)


def test_shifts_that_change_no_class_are_not_queried():
    archive = archive_of(Oracle(Thresholds(gap=0.9)), 100)
    arm = ShiftArm(torch.arange(2), rows=50)
    arm.pull(archive)
    # A shift of the first output by -1 changes classes, one by +1 does not.
    assert archive.points[1:].tolist() == [[-1.0, 0.0]]


def test_shifts_that_the_metric_does_not_notice_end_the_arm():
    archive = archive_of(Oracle(Thresholds(gap=5.0)), 100)
    arm = ShiftArm(torch.arange(2), rows=50)
    for _ in range(2):
        arm.pull(archive)
    assert arm.spent and len(archive.costs) == 1


def test_a_value_over_classes_learns_a_metric_of_classes_from_fewer_answers_than_one_over_phi():
    found = {}
    for views in (True, False):
        oracle = Oracle(Thresholds(gap=0.3, dim=12))
        archive = Archive(oracle, 60)
        points = 0.3 * torch.randn(60, 12, generator=torch.Generator().manual_seed(1))
        archive.observe(points, stage="start")
        arm = value_arm(oracle, Recipe(candidates=80, rows=50, views=views))
        found[views] = arm.held_out_correlation(archive)
    assert found[True] > found[False] + 0.1
