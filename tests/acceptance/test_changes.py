"""Counts of won and lost examples, against plain loops."""

import pytest
import torch

from metricopt.acceptance.changes import MOST, label_changes


@pytest.mark.parametrize("classes", [2, 5])
def test_counts_by_class_are_those_of_a_plain_loop(classes):
    draw = torch.Generator().manual_seed(classes)
    before, after = torch.randn(2, 200, classes, generator=draw)
    targets = torch.randint(classes, (200,), generator=draw)
    expected = {key: [0] * classes for key in ("examples", "right_before", "won", "lost")}
    for old, new, true in zip(before.tolist(), after.tolist(), targets.tolist(), strict=True):
        was, now = old.index(max(old)) == true, new.index(max(new)) == true
        expected["examples"][true] += 1
        expected["right_before"][true] += was
        expected["won"][true] += now and not was
        expected["lost"][true] += was and not now
    assert label_changes((before, after), targets) == {"classes": list(range(classes)), **expected}


def test_a_column_of_single_logits_is_a_yes_or_no():
    before, after = torch.tensor([[-1.0], [-1.0]]), torch.tensor([[1.0], [-1.0]])
    found = label_changes((before, after), torch.tensor([1.0, 1.0]))
    assert (found["classes"], found["won"], found["lost"]) == ([1], [1], [0])


@pytest.mark.parametrize(
    "targets",
    [torch.rand(4), torch.zeros(4, 3, dtype=torch.long), torch.tensor([0.0, 1.0, 0.5, 1.0])],
    ids=["numbers", "many labels", "a fraction"],
)
def test_without_one_class_an_example_there_is_nothing_to_count(targets):
    assert label_changes((torch.zeros(4, 3), torch.zeros(4, 3)), targets) == {}


def test_too_many_classes_are_not_counted():
    targets = torch.arange(MOST + 1)
    assert label_changes((torch.zeros(MOST + 1, 2), torch.zeros(MOST + 1, 2)), targets) == {}
