"""Statistics of predictions against plain loops."""

import pytest
import torch

from metricopt.search.transfer.place import reference_of
from metricopt.search.transfer.statistics import statistics


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_confusions_and_calibration_are_what_plain_loops_count(classes):
    draw = torch.Generator().manual_seed(classes)
    outputs = 3 * torch.randn(2, 40, classes, generator=draw)
    reference = torch.randint(classes, (40,), generator=draw)
    found = statistics(outputs, reference)
    for member, row in zip(outputs, found, strict=True):
        hard, soft = torch.zeros(classes, classes), torch.zeros(classes, classes)
        sure, said = torch.zeros(classes), member.argmax(1)
        for at, true in enumerate(reference.tolist()):
            probabilities = member[at].softmax(0)
            hard[true, said[at]] += 1 / 40
            soft[true] += probabilities / 40
            sure[said[at]] += probabilities[said[at]] / 40
        size = classes**2
        assert torch.allclose(row[:size], hard.flatten(), atol=1e-6)
        assert torch.allclose(row[size : 2 * size], soft.flatten(), atol=1e-6)
        assert float(row[2 * size : 2 * size + 10].sum()) == pytest.approx(1.0)
        assert torch.allclose(row[-classes:], sure, atol=1e-6)


def test_one_output_is_two_classes():
    one = torch.randn(3, 20, 1, generator=torch.Generator().manual_seed(0))
    two = torch.cat([torch.zeros_like(one), one], 2)
    reference = torch.arange(20) % 2
    assert torch.allclose(statistics(one, reference), statistics(two, reference), atol=1e-6)


def test_truth_is_that_of_the_rows_looked_at_however_they_are_spread(small_task):
    task = small_task(9)
    task.labels_visible = True
    outputs = task.probe().shown(torch.zeros(1, task.dim), rows=2)[0]
    reference = reference_of(task, outputs, rows=2)
    assert reference.tolist() == task.search.targets[task.probe().rows_shown(rows=2)].tolist()
    assert len(reference) == len(outputs)
