import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from metricopt.core.errors import DataError
from metricopt.gaussian_process import (
    Hyperparameters,
    cholesky,
    condition,
    condition_jointly,
    log_marginal_likelihood,
    posterior,
    rbf,
)


def problem(batch: int, n: int, dim: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(batch, n, dim, generator=generator, dtype=torch.float64)
    y = torch.sin(5 * x.sum(-1)) + 0.1 * torch.randn(batch, n, generator=generator, dtype=torch.float64)
    return x, y, torch.rand(batch, 7, dim, generator=generator, dtype=torch.float64)


def hyperparameters(batch: int) -> Hyperparameters:
    spread = torch.arange(1, batch + 1, dtype=torch.float64)
    return Hyperparameters(0.2 * spread, 0.5 * spread, 0.01 * spread, 0.1 * spread)


def regressor(h: Hyperparameters, member: int) -> GaussianProcessRegressor:
    kernel = ConstantKernel(h.signal_variance[member].item()) * RBF(h.length_scale[member].item())
    return GaussianProcessRegressor(kernel, alpha=h.noise_variance[member].item(), optimizer=None)


@settings(max_examples=20, deadline=None)
@given(batch=st.integers(1, 4), n=st.integers(1, 12), dim=st.integers(1, 5), seed=st.integers(0, 1000))
def test_posterior_is_scikit_learns_at_the_same_hyperparameters(batch, n, dim, seed):
    x, y, query = problem(batch, n, dim, seed)
    h = hyperparameters(batch)
    ours = posterior(x, y, query, h)
    for member in range(batch):
        mean = h.mean[member].item()
        theirs = regressor(h, member).fit(x[member].numpy(), y[member].numpy() - mean)
        expected, std = theirs.predict(query[member].numpy(), return_std=True)
        np.testing.assert_allclose(ours.mean[member], expected + mean, atol=1e-8)
        np.testing.assert_allclose(ours.std[member], std, atol=1e-6)


def test_likelihood_is_the_multivariate_normal_density():
    x, y, _ = problem(3, 6, 2)
    covariance = 0.7 * rbf(x, x, 0.4) + 0.05 * torch.eye(6, dtype=torch.float64)
    expected = [multivariate_normal(np.zeros(6), covariance[i].numpy()).logpdf(y[i].numpy()) for i in range(3)]
    np.testing.assert_allclose(log_marginal_likelihood(covariance, y), expected, rtol=1e-9)


def test_a_length_scale_per_dimension_is_a_division_of_the_inputs():
    x, _, query = problem(1, 4, 3)
    scales = np.array([0.3, 1.0, 2.0])
    expected = RBF(scales)(x[0].numpy(), query[0].numpy())
    np.testing.assert_allclose(
        rbf(x / torch.tensor(scales), query / torch.tensor(scales), 1.0)[0], expected, rtol=1e-12
    )


def test_near_points_far_from_the_origin_keep_their_distance():
    near = torch.tensor([[[1e6], [1e6 + 0.5]]], dtype=torch.float64)
    assert rbf(near, near, 1.0)[0, 0, 1].item() == pytest.approx(np.exp(-0.125), rel=1e-9)


@pytest.mark.parametrize("how", ["nan", "mask"])
def test_missing_observations_are_as_if_they_were_not_there(how):
    x, y, query = problem(2, 8, 2)
    gone = torch.tensor([1, 4, 5])
    kept = torch.tensor([0, 2, 3, 6, 7])
    mask = torch.ones(2, 8, dtype=torch.bool)
    mask[:, gone] = False
    spoilt = torch.where(mask, y, torch.nan if how == "nan" else 99.0)
    given_mask = None if how == "nan" else mask
    h = hyperparameters(2)
    ours, expected = posterior(x, spoilt, query, h, mask=given_mask), posterior(x[:, kept], y[:, kept], query, h)
    torch.testing.assert_close(ours.mean, expected.mean, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours.std, expected.std, rtol=1e-12, atol=1e-12)

    covariance = rbf(x, x, 0.5) + 0.1 * torch.eye(8)
    small = covariance[:, kept][:, :, kept]
    likelihood = log_marginal_likelihood(covariance, spoilt, given_mask)
    torch.testing.assert_close(likelihood, log_marginal_likelihood(small, y[:, kept]))


def test_only_members_that_need_it_get_jitter():
    sound = torch.tensor([[2.0, 0.5], [0.5, 1.0]], dtype=torch.float64)
    singular = torch.tensor([[1.0, 1.0], [1.0, 1.0 - 1e-7]], dtype=torch.float64)
    factor = cholesky(torch.stack([sound, singular]))
    assert torch.equal(factor[0], torch.linalg.cholesky(sound))
    torch.testing.assert_close(factor[1] @ factor[1].mT, singular, atol=1e-5, rtol=0)


def test_a_hopeless_matrix_is_named_as_such():
    matrices = torch.stack([torch.eye(2), -torch.eye(2), torch.full((2, 2), torch.nan)])
    with pytest.raises(DataError, match="2 of 3 covariance matrices are not positive definite"):
        cholesky(matrices)


def test_joint_posterior_has_the_pointwise_one_on_its_diagonal():
    x, y, query = problem(2, 6, 3)
    covariance, cross = rbf(x, x, 0.5) + 0.01 * torch.eye(6), rbf(x, query, 0.5)
    mean, joint = condition_jointly(covariance, cross, rbf(query, query, 0.5), y)
    alone = condition(covariance, cross, torch.ones(1, 1), y)
    torch.testing.assert_close(mean, alone.mean)
    torch.testing.assert_close(joint.diagonal(dim1=-2, dim2=-1).sqrt(), alone.std)
    theirs = GaussianProcessRegressor(RBF(0.5), alpha=0.01, optimizer=None).fit(x[1].numpy(), y[1].numpy())
    np.testing.assert_allclose(joint[1], theirs.predict(query[1].numpy(), return_cov=True)[1], atol=1e-9)


def test_the_posterior_can_be_differentiated_in_the_query_points():
    x, y, query = problem(1, 5, 2)
    h = hyperparameters(1)
    assert torch.autograd.gradcheck(lambda q: posterior(x, y, q, h).mean, query.requires_grad_())
    assert torch.autograd.gradcheck(lambda q: posterior(x, y, q, h).std, query)
