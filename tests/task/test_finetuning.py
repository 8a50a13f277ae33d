from functools import partial
from itertools import repeat

import pytest
import torch
from torch.optim import SGD

from metricopt.task.finetuning import finetuning
from metricopt.task.quadratic import QuadraticTask

TASK = QuadraticTask(dim=3)
START = torch.tensor([[0.5, -1.0, 2.0], [0.0, 0.0, 0.0]])


def gradient(phi: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
    return TASK.curvature * (phi - TASK.loss_optimum - batch)


def batches(seed: int = 0):
    return TASK.batches(2, torch.Generator().manual_seed(seed))


def test_each_step_follows_the_gradient_of_the_next_mini_batch_and_tells_the_loss_before_it():
    phi = START.clone()
    walked = finetuning(TASK, START, batches(), steps=4, optimizer=partial(SGD, lr=0.1))
    for step, batch in zip(walked, batches(), strict=False):
        torch.testing.assert_close(step.loss, TASK.loss(phi, batch))
        phi = phi - 0.1 * gradient(phi, batch)
        torch.testing.assert_close(step.phi, phi)


def test_a_cosine_lowers_the_rate_to_zero_on_the_way():
    still = torch.zeros(2, 3)
    walked = finetuning(TASK, START, repeat(still), steps=5, optimizer=partial(SGD, lr=0.1), cosine=True)
    phi = START.clone()
    for number, step in enumerate(walked):
        rate = 0.05 * (1 + torch.cos(torch.tensor(torch.pi * number / 5)))
        phi = phi - rate * gradient(phi, still)
        torch.testing.assert_close(step.phi, phi)


@pytest.mark.parametrize("steps", [0, 1, 7])
def test_as_many_mini_batches_are_drawn_as_steps_are_taken_and_the_start_is_left_alone(steps):
    drawn = []

    def counted():
        for batch in batches():
            drawn.append(batch)
            yield batch

    start = START.clone()
    walked = list(finetuning(TASK, start, counted(), steps=steps, optimizer=partial(SGD, lr=0.1), cosine=True))
    assert len(walked) == len(drawn) == steps
    assert torch.equal(start, START)
    assert not any(part.requires_grad for step in walked for part in step)
