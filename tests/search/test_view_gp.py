import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from metricopt.search.view_gp import ViewGP, likeliest, squared_distances, view_gp

JITTER = 1e-5


def cloud(rows, dim=3, seed=0):
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed))


def bowl(points):
    return 0.3 + 0.1 * points.square().sum(1)


@pytest.fixture(scope="module")
def value():
    return view_gp(cloud(40), bowl(cloud(40)))


def reference(value: ViewGP) -> GaussianProcessRegressor:
    """scikit-learn's process with the same hyper-parameters, around the same mean."""
    h = value.hyperparameters
    kernel = ConstantKernel(float(h.signal_variance)) * RBF(float(h.length_scale))
    alpha = float(h.noise_variance + JITTER * h.signal_variance)
    process = GaussianProcessRegressor(kernel, alpha=alpha, optimizer=None)
    return process.fit(value.features.double().numpy(), (bowl(cloud(40)).double() - h.mean).numpy())


def test_mean_and_deviation_are_those_of_scikit_learn(value):
    points = cloud(25, seed=1)
    mean, std = reference(value).predict(points.double().numpy(), return_std=True)
    mean = torch.tensor(mean) + value.hyperparameters.mean
    torch.testing.assert_close(value(points).double(), mean, atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(value.std(points).double(), torch.tensor(std), atol=1e-3, rtol=1e-2)


def test_it_predicts_unseen_costs_of_a_smooth_function(value):
    points = 0.7 * cloud(50, seed=2)
    assert float((value(points) - bowl(points)).abs().max()) < 0.05


def test_samples_at_heat_zero_are_the_mean_and_at_one_have_the_deviation_believed(value):
    points = 3 * cloud(4, seed=3)
    generator = torch.Generator().manual_seed(0)
    cold = value.samples(points, torch.zeros(2, dtype=torch.float64), generator)
    torch.testing.assert_close(cold, value(points).expand(2, -1), atol=1e-5, rtol=1e-4)
    drawn = value.samples(points, torch.ones(4000, dtype=torch.float64), generator)
    torch.testing.assert_close(drawn.std(0), value.std(points), rtol=0.08, atol=1e-3)
    half = value.samples(points, torch.full((4000,), 0.5, dtype=torch.float64), generator)
    torch.testing.assert_close(half.std(0), value.std(points) / 2, rtol=0.08, atol=1e-3)


def test_samples_at_points_that_look_the_same_are_the_same(value):
    points = cloud(1, seed=5).repeat(30, 1)
    drawn = value.samples(points, torch.ones(3, dtype=torch.float64), torch.Generator().manual_seed(0))
    assert float((drawn - drawn[:, :1]).abs().max()) < 0.02 * float(value.hyperparameters.signal_variance.sqrt())


def test_the_slope_at_heat_zero_is_the_gradient_of_the_mean(value):
    at = 0.5 * cloud(1, seed=4)[0]
    slope = value.slopes(at, torch.zeros(1, dtype=torch.float64), torch.Generator().manual_seed(0))[0]
    step = 1e-2 * torch.eye(3)
    differences = (value((at + step).double().float()) - value((at - step).double().float())) / 2e-2
    torch.testing.assert_close(slope, differences, atol=2e-3, rtol=0.02)


def test_slopes_differ_most_where_nothing_is_known(value):
    heat, generator = torch.ones(200, dtype=torch.float64), torch.Generator().manual_seed(0)
    here = value.slopes(torch.zeros(3), heat, generator).std(0).mean()
    far = value.slopes(torch.full((3,), 9.0), heat, generator).std(0).mean()
    assert float(far) > 3 * float(here)


def test_given_hyper_parameters_are_kept(value):
    other = view_gp(cloud(20, seed=7), bowl(cloud(20, seed=7)), like=value.hyperparameters)
    assert other.hyperparameters is value.hyperparameters


def test_distances_of_points_far_from_the_origin_are_not_lost_to_rounding():
    near = 1000 + 0.01 * cloud(5)
    expected = torch.cdist(near.double(), near.double()).square()
    torch.testing.assert_close(squared_distances(near, near), expected, atol=1e-7, rtol=1e-2)


def test_the_features_that_explain_the_costs_are_the_likeliest():
    told, chance = cloud(60, seed=8), cloud(60, seed=9)
    candidates = [(each, squared_distances(each, each)) for each in (chance, told, cloud(60, seed=10))]
    assert likeliest(candidates, bowl(told)) == 1


def test_costs_without_any_difference_are_no_error():
    flat = view_gp(cloud(10), torch.full((10,), 0.5))
    torch.testing.assert_close(flat(cloud(3, seed=1)), torch.full((3,), 0.5))
    alike = view_gp(torch.zeros(8, 2), torch.linspace(0.2, 0.3, 8))
    assert bool(torch.isfinite(alike(torch.zeros(1, 2))).all())


def test_a_point_very_far_off_leaves_the_others_their_distances():
    features = torch.cat([0.01 * cloud(60), torch.full((1, 3), 1e4)])
    costs = torch.cat([bowl(cloud(60)), torch.ones(1)])
    value = view_gp(features, costs)
    assert bool(torch.isfinite(value(features)).all())
