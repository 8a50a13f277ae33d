"""What is gathered along a search stays within a limit of memory, whatever the number of outputs."""

import pytest
import torch

from metricopt.search.transfer import keepsake as module
from metricopt.search.transfer.keepsake import LEAST, MOST, Keepsake


def gathered(*, columns: int, answers: int = 400) -> Keepsake:
    keepsake = Keepsake()
    for start in range(0, answers, 5):
        costs = torch.linspace(1, 0, answers)[start : start + 5]
        keepsake.add(torch.zeros(5, 3), torch.zeros(5, 10, columns), costs)
    return keepsake


@pytest.mark.parametrize(("columns", "most"), [(1, MOST), (200, 32), (10**4, LEAST)])
def test_with_more_outputs_fewer_answers_are_kept(monkeypatch, columns, most):
    monkeypatch.setattr(module, "MOST_BYTES", 32 * 2 * 10 * 200 * 2)  # 32 answers of 200 outputs, held twice
    keepsake = gathered(columns=columns)
    assert most <= len(keepsake.costs) <= 2 * most


def test_what_is_forgotten_is_neither_the_original_nor_the_best(monkeypatch):
    monkeypatch.setattr(module, "MOST_BYTES", 1)
    costs = gathered(columns=4).costs.tolist()
    assert (costs[0], costs[-1]) == (1.0, 0.0)
