"""On an objective whose smoothed gradient is known: w_0^2 / 2 + a sin(k w_1)."""

import math

import pytest
import torch

from metricopt.core.seeding import stream
from metricopt.paper.learned.equation_s3_estimators import (
    combined,
    estimate,
    evolution_gradients,
    noisy_pairs,
    reparametrised_gradients,
)

WEIGHTS, STD = torch.tensor([0.3, 0.02], dtype=torch.float64), 0.1
AMPLITUDE, FREQUENCY = 0.05, 30.0


def objective(weights: torch.Tensor) -> torch.Tensor:
    return weights[:, 0].square() / 2 + AMPLITUDE * (FREQUENCY * weights[:, 1]).sin()


def smoothed_gradient() -> torch.Tensor:
    faded = math.exp(-((FREQUENCY * STD) ** 2) / 2)
    second = AMPLITUDE * FREQUENCY * math.cos(FREQUENCY * WEIGHTS[1].item()) * faded
    return torch.tensor([WEIGHTS[0].item(), second], dtype=torch.float64)


def estimates(pairs: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    noise = STD * torch.randn(pairs, 2, generator=stream(seed), dtype=torch.float64)
    leaf = noisy_pairs(WEIGHTS, noise).requires_grad_()
    values = objective(leaf)
    gradients = torch.autograd.grad(values.sum(), leaf)[0]
    return evolution_gradients(noise, values.detach(), std=STD), reparametrised_gradients(gradients)


@pytest.mark.parametrize("which", [0, 1], ids=["evolution strategies", "reparametrised"])
def test_each_estimator_is_unbiased(which):
    found = estimates(100_000, seed=0)[which]
    error = found.std(0) / math.sqrt(len(found)) + 1e-12
    assert bool(((found.mean(0) - smoothed_gradient()).abs() < 4 * error).all())


def test_their_means_agree_within_the_standard_error():
    evolution, through = estimates(100_000, seed=1)
    difference = evolution - through
    assert bool((difference.mean(0).abs() < 4 * difference.std(0) / math.sqrt(len(difference))).all())


def test_the_combination_has_the_lowest_variance():
    batches = [estimates(16, seed) for seed in range(400)]
    alone = [torch.stack([batch[which].mean(0) for batch in batches]).var(0) for which in (0, 1)]
    together = torch.stack([combined(*batch).gradient for batch in batches]).var(0)
    # In one coordinate the one is better, in one the other; the combination finds out which.
    assert bool(alone[1][0] < alone[0][0]) and bool(alone[0][1] < alone[1][1])
    assert bool((together <= 1.1 * torch.minimum(*alone) + 1e-9).all())
    assert together.sum() < min(each.sum() for each in alone)


def test_the_combination_stays_unbiased_where_weights_come_from_the_same_pairs():
    found = torch.stack([combined(*estimates(64, seed)).gradient for seed in range(600)])
    error = found.std(0) / math.sqrt(len(found))
    # Not exactly: a few percent of the gradient at most.
    assert bool(((found.mean(0) - smoothed_gradient()).abs() < 4 * error + 0.05 * smoothed_gradient().abs()).all())


def test_each_may_be_asked_for_alone():
    evolution, through = estimates(8, seed=0)
    assert torch.equal(estimate(evolution, through, estimator="es").gradient, evolution.mean(0))
    assert torch.equal(estimate(evolution, through, estimator="reparametrised").gradient, through.mean(0))
    assert torch.equal(estimate(evolution, through, estimator="both").gradient, combined(evolution, through).gradient)
