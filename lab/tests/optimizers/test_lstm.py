import math

import pytest
import torch

from metricopt.core.seeding import stream
from metricopt.paper.learned.signals import Signals
from metricopt.paper.learned.weights import LearnedWeights, load_optimizer, save_optimizer
from metricopt_lab.figures.figure4.learned import WEIGHTS
from metricopt_lab.optimizers.lstm import LstmRule, log_and_sign


def cells(rule: LstmRule, weights: torch.Tensor) -> tuple[list[torch.nn.LSTMCell], torch.nn.Linear]:
    """torch's own cells with the same weights, whose gates stand in another order: enter, forget, new, leave."""
    made, begin, inputs = [], 0, 2
    for width in rule.hidden:
        shape = (inputs + width + 1, 4 * width)
        matrix = weights[begin : begin + shape[0] * shape[1]].view(shape)
        begin += matrix.numel()
        order = torch.cat(
            [torch.arange(2 * width), torch.arange(3 * width, 4 * width), torch.arange(2 * width, 3 * width)]
        )
        matrix = matrix[:, order]
        cell = torch.nn.LSTMCell(inputs, width).double()
        with torch.no_grad():
            cell.weight_ih.copy_(matrix[:inputs].T)
            cell.weight_hh.copy_(matrix[inputs:-1].T)
            cell.bias_ih.copy_(matrix[-1])
            cell.bias_hh.zero_()
        made.append(cell)
        inputs = width
    output = torch.nn.Linear(inputs, 1).double()
    with torch.no_grad():
        output.weight.copy_(weights[begin:-1][None])
        output.bias.copy_(weights[-1:])
    return made, output


def test_it_is_torch_s_own_lstm_for_every_coordinate():
    rule = LstmRule(hidden=(4, 3))
    weights = torch.randn(2, rule.size, generator=stream(0), dtype=torch.float64)
    gradients = torch.randn(5, 2, 3, generator=stream(1), dtype=torch.float64)
    zeros, ones = torch.zeros(2, 3, dtype=torch.float64), torch.ones(2, dtype=torch.float64)
    state = rule.start(zeros)
    memories: list[list] = [[None] * 2 for _ in range(2)]
    for gradient in gradients:
        update, state = rule.update(weights, Signals(zeros, gradient, ones, ones, zeros), state)
        for member in range(2):
            layers, output = cells(rule, weights[member])
            h = log_and_sign(gradient[member])
            for number, cell in enumerate(layers):
                memories[member][number] = cell(h, memories[member][number])
                h = memories[member][number][0]
            torch.testing.assert_close(update[member], output(h).squeeze(-1))


@pytest.mark.parametrize(("number", "expected"), [(2.0, (math.log(2) / 5, 1)), (-1e-4, (-1, -1e-4 * math.exp(5)))])
def test_large_gradients_are_told_by_their_logarithm_and_small_ones_by_their_size(number, expected):
    torch.testing.assert_close(log_and_sign(torch.tensor(number)), torch.tensor(expected))


def test_its_weights_are_saved_and_read_again(tmp_path):
    learned = LearnedWeights(LstmRule(), LstmRule().initial(stream(0)))
    save_optimizer(learned, tmp_path)
    again = load_optimizer(tmp_path)
    assert again.rule == LstmRule() and torch.equal(again.weights, learned.weights)


@pytest.mark.parametrize("method", WEIGHTS)
def test_the_weights_of_every_learned_method_are_there(method):
    assert load_optimizer(WEIGHTS[method]).about["tasks"] > 0
