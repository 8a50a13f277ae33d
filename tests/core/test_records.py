import dataclasses

import pytest
import torch

from metricopt.core.errors import ObservationError
from metricopt.core.records import LabelledTrajectory, Outcome, Trajectory


def trajectory(tasks=3, steps=5, dim=2, observed=((0, 2, 4), (0, 1, 4), (0, 3, 4))):
    steps_of = torch.tensor(observed)
    phi = torch.arange(float(tasks * steps * dim)).reshape(tasks, steps, dim)
    return Trajectory(phi, phi.sum(-1), steps_of, steps_of / 10, noise_std=0.01)


def test_observed_phi_is_phi_at_the_observed_steps():
    path = trajectory()
    for task in range(3):
        for k in range(3):
            assert torch.equal(path.observed_phi[task, k], path.phi[task, path.observed_steps[task, k]])


def test_rows_keep_every_part_of_the_chosen_tasks():
    path = trajectory()
    some = path.rows(torch.tensor([2, 0]))
    for name in ("phi", "loss", "observed_steps", "costs"):
        assert torch.equal(getattr(some, name), getattr(path, name)[[2, 0]])
    assert some.noise_std == path.noise_std


@pytest.mark.parametrize(
    "change",
    [
        {"loss": torch.zeros(3, 4)},
        {"costs": torch.zeros(3, 2)},
        {"costs": torch.zeros(2, 3), "observed_steps": torch.zeros(2, 3, dtype=torch.long)},
    ],
)
def test_parts_of_different_paths_are_refused(change):
    with pytest.raises(ValueError, match="do not describe the same paths"):
        dataclasses.replace(trajectory(), **change)


def test_one_observation_is_too_few_to_interpolate():
    with pytest.raises(ObservationError, match="1 metric observation in 5 steps; interpolation needs at least 2"):
        trajectory(observed=((0,), (1,), (2,)))


def test_a_failed_query_is_a_nan_and_allowed():
    path = dataclasses.replace(trajectory(), costs=torch.full((3, 3), torch.nan))
    assert path.costs.isnan().all()


def test_records_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        trajectory().noise_std = 0.0  # pyright: ignore[reportAttributeAccessIssue]


def test_labels_need_a_shape_that_fits_and_a_positive_deviation_everywhere():
    phi, mean, std = torch.zeros(2, 3, 4), torch.zeros(2, 3), torch.ones(2, 3)
    assert LabelledTrajectory(phi, mean, std).rows(torch.tensor([1])).phi.shape == (1, 3, 4)
    with pytest.raises(ValueError, match=r"mean \(2, 2\)"):
        LabelledTrajectory(phi, mean[:, :2], std[:, :2])
    for bad in (0.0, -1.0, torch.nan):
        with pytest.raises(ValueError, match="must be positive at every step"):
            LabelledTrajectory(phi, mean, torch.tensor([[1.0, 1.0, bad], [1.0, 1.0, 1.0]]))


def test_an_outcome_knows_what_it_would_have_been_with_fewer_queries():
    a, b, c = torch.zeros(1), torch.ones(1), torch.full((1,), 2.0)
    outcome = Outcome(c, ((1, a), (10, b), (20, c)))
    assert [outcome.at(queries) is each for queries, each in ((1, a), (9, a), (10, b), (19, b), (500, c))] == [True] * 5
    with pytest.raises(ValueError, match="nothing was known after 0 queries; the first incumbent needs 1"):
        outcome.at(0)


def test_what_is_to_be_judged_is_the_best_plain_vector_and_then_the_best_of_all():
    zero, shift, end = torch.zeros(2), torch.tensor([0.0, 1.0]), torch.ones(2)
    outcome = Outcome(end, ((1, zero), (5, shift), (9, end)), plain=((1, zero), (5, shift), (9, shift)))
    assert outcome.rungs().tolist() == [[0, 1], [1, 1]]
    assert outcome.rungs(5).tolist() == [[0, 1]]  # they are one and the same
    assert outcome.rungs(4).tolist() == [[0, 0]]
    plainly_nothing = Outcome(end, ((1, zero), (9, end)), plain=((1, zero), (9, zero)))
    assert plainly_nothing.rungs().tolist() == [[1, 1]]  # the original is what all are compared with anyway
    assert Outcome(end, ((9, end),)).rungs().tolist() == [[1, 1]]
