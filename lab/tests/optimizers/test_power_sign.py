import math

import torch

from metricopt_lab.optimizers.power_sign import PowerSign


def test_steps_are_those_of_the_formula():
    phi = torch.nn.Parameter(torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64))
    optimizer = PowerSign([phi], lr=0.1, steps=4)
    expected, average = phi.tolist(), [0.0] * 3
    for step in range(6):
        optimizer.zero_grad()
        loss = (phi**2).sum() + (-1) ** step * phi[2]
        loss.backward()
        gradient = phi.grad.tolist()
        optimizer.step()
        average = [0.9 * a + 0.1 * g for a, g in zip(average, gradient, strict=True)]
        decay = 0.5 * (1 + math.cos(math.pi * min(step / 4, 1)))
        powers = [
            math.exp(decay * math.copysign(1, a) * math.copysign(1, g)) for a, g in zip(average, gradient, strict=True)
        ]
        expected = [e - 0.1 * p * g for e, p, g in zip(expected, powers, gradient, strict=True)]
        torch.testing.assert_close(phi.detach(), torch.tensor(expected, dtype=torch.float64))
