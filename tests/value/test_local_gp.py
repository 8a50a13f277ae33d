import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from metricopt.value.local_gp import LocalGP, local_gp


def cloud(rows, dim=3, seed=0):
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed))


def bowl(points):
    return 0.3 + 0.1 * points.square().sum(1)


@pytest.fixture(scope="module")
def value():
    return local_gp(cloud(40), bowl(cloud(40)), scale=1.0)


def reference(value: LocalGP) -> GaussianProcessRegressor:
    """scikit-learn's process with the same hyper-parameters, around the same mean."""
    h = value.hyperparameters
    kernel = ConstantKernel(float(h.signal_variance)) * RBF(float(h.length_scale))
    process = GaussianProcessRegressor(kernel, alpha=float(h.noise_variance), optimizer=None)
    return process.fit(value.points.double().numpy(), (value.costs.double() - h.mean).numpy())


def test_mean_and_deviation_are_those_of_scikit_learn(value):
    points = cloud(25, seed=1)
    mean, std = reference(value).predict(points.double().numpy(), return_std=True)
    mean = torch.tensor(mean) + value.hyperparameters.mean
    torch.testing.assert_close(value(points).double(), mean, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(value.std(points).double(), torch.tensor(std), atol=1e-5, rtol=1e-3)


def test_it_predicts_unseen_costs_of_a_smooth_function(value):
    points = 0.7 * cloud(50, seed=2)
    assert float((value(points) - bowl(points)).abs().max()) < 0.05


def test_samples_are_joint_draws_with_that_mean_and_covariance(value):
    points = cloud(6, seed=3)
    samples = value.samples(points, 20_000, torch.Generator().manual_seed(0)).double()
    _, covariance = reference(value).predict(points.double().numpy(), return_cov=True)
    covariance = torch.tensor(covariance)
    deviation = covariance.diagonal().sqrt()
    assert samples.shape == (20_000, 6)
    assert bool(((samples.mean(0) - value(points).double()).abs() < 5 * deviation / 20_000**0.5 + 1e-4).all())
    scale = deviation[:, None] * deviation + 1e-8
    assert float(((samples.T.cov() - covariance) / scale).abs().max()) < 0.1


def test_samples_at_the_same_point_agree_with_each_other(value):
    twice = cloud(1, seed=4).repeat(2, 1)
    samples = value.samples(twice, 50, torch.Generator().manual_seed(0))
    spread = float(value.hyperparameters.signal_variance.sqrt())
    assert float((samples[:, 0] - samples[:, 1]).abs().max()) < 0.03 * spread  # the jitter alone


def test_it_knows_less_far_away(value):
    far, near = value.std(torch.full((1, 3), 50.0)), value.std(value.points[:1])
    assert float(far) == pytest.approx(float(value.hyperparameters.signal_variance.sqrt()), rel=1e-4)
    assert float(near) < 0.1 * float(far)


def test_its_gradient_is_that_of_the_cost(value):
    points = (0.5 * cloud(10, seed=5)).requires_grad_()
    (gradient,) = torch.autograd.grad(value(points).sum(), points)
    torch.testing.assert_close(gradient, 0.2 * points.detach(), atol=0.05, rtol=0)


def test_the_same_generator_gives_the_same_samples(value):
    one, two = (value.samples(cloud(4), 3, torch.Generator().manual_seed(7)) for _ in range(2))
    assert torch.equal(one, two)


def test_constant_costs_are_predicted_as_they_are():
    flat = local_gp(cloud(10), torch.full((10,), 0.25), scale=1.0)
    torch.testing.assert_close(flat(cloud(5, seed=1)), torch.full((5,), 0.25), atol=1e-5, rtol=0)
    assert bool(torch.isfinite(flat.samples(cloud(5, seed=1), 2, torch.Generator())).all())
