"""Exact Gaussian-process regression for a whole batch at once: over time (trajectories) and over phi (values).

Everything is computed in float64, batch first, from small pure pieces: a kernel matrix, its Cholesky factor, the
likelihood, the posterior. Missing observations (NaN, or masked) are treated exactly as if they were not there.
"""

from metricopt.gaussian_process.conditioning import (
    Hyperparameters,
    Posterior,
    cholesky,
    condition,
    condition_jointly,
    log_marginal_likelihood,
    posterior,
    rbf,
    without_missing,
)
from metricopt.gaussian_process.fitting import fit, fit_correlations
from metricopt.gaussian_process.same_points import smooth, smooth_together

__all__ = [
    "Hyperparameters",
    "Posterior",
    "cholesky",
    "condition",
    "condition_jointly",
    "fit",
    "fit_correlations",
    "log_marginal_likelihood",
    "posterior",
    "rbf",
    "smooth",
    "smooth_together",
    "without_missing",
]
