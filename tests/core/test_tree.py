from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from metricopt.core.errors import DataError
from metricopt.core.tree import (
    at,
    call,
    check_rows,
    described,
    each,
    joined,
    opened,
    paths,
    replaced,
    row_count,
    rows,
    same_structure,
    tensors_of,
)

Pair = namedtuple("Pair", "left right")


@dataclass
class Output:
    logits: Any
    loss: Any = None


TREE = {"a": torch.arange(4), "b": (torch.zeros(4, 2), ["w", "x", "y", "z"])}


def test_a_network_is_called_with_one_argument_several_or_names():
    class Sum(nn.Module):
        def forward(self, a, b=0):
            return a + b

    assert call(Sum(), torch.tensor(1)) == 1
    assert call(Sum(), (torch.tensor(1), torch.tensor(2))) == 3
    assert call(Sum(), {"b": torch.tensor(3), "a": torch.tensor(1)}) == 4


@pytest.mark.parametrize("index", [torch.tensor([3, 1, 1]), slice(1, 3)], ids=["numbers", "a slice"])
def test_rows_are_those_of_every_tensor_and_every_list(index):
    found = rows(TREE, index)
    numbers = index.tolist() if isinstance(index, torch.Tensor) else range(4)[index]
    assert found["a"].tolist() == list(numbers)
    assert found["b"][0].shape == (len(numbers), 2)
    assert found["b"][1] == ["wxyz"[number] for number in numbers]


def test_rows_of_an_index_of_a_population_are_one_list_a_member():
    assert rows(["a", "b", "c"], torch.tensor([[0, 1], [2, 2]])) == [["a", "b"], ["c", "c"]]


def test_what_is_cut_and_joined_again_is_the_same():
    parts = [rows(TREE, slice(0, 1)), rows(TREE, slice(1, 3)), rows(TREE, slice(3, 4))]
    again = joined(parts)
    assert torch.equal(again["a"], TREE["a"]) and torch.equal(again["b"][0], TREE["b"][0])
    assert again["b"][1] == TREE["b"][1] and row_count(again) == 4


def test_batches_padded_to_their_own_length_are_joined_as_a_list_of_rows():
    found = joined([torch.zeros(2, 3), torch.ones(1, 5)])
    assert [tuple(row.shape) for row in found] == [(3,), (3,), (5,)]


def test_every_tensor_is_changed_and_the_rest_stays_of_the_same_types():
    tree = Output(Pair(torch.ones(2), [torch.zeros(1), "text"]), None)
    found = each(lambda tensor: tensor + 1, tree)
    assert isinstance(found, Output) and isinstance(found.logits, Pair) and found.loss is None
    assert found.logits.left.tolist() == [2, 2] and found.logits.right[1] == "text"
    assert [tensor.tolist() for tensor in tensors_of(found)] == [[2, 2], [1]]
    assert tree.logits.left.tolist() == [1, 1]


@pytest.mark.parametrize(
    "tree",
    [{"a": (1, 2), "b": 3}, (1, [2, 3]), Pair(1, {"x": 2}), Output((1, 2), loss=4)],
    ids=["mapping", "tuple", "named tuple", "record"],
)
def test_each_way_leads_to_its_leaf_and_only_that_one_is_replaced(tree):
    ways = list(paths(tree))
    for path, leaf in ways:
        assert at(tree, path) == leaf
        changed = replaced(tree, path, "new")
        assert type(changed) is type(tree) and at(changed, path) == "new"
        assert [p for p, new in paths(changed) if new != dict(ways)[p]] == [path]
        assert at(tree, path) == leaf


def test_model_outputs_are_opened_without_what_is_none():
    assert opened([Output({"x": 1, "y": None}), (Output(2, 3),)]) == [{"logits": {"x": 1}}, ({"logits": 2, "loss": 3},)]


@pytest.mark.parametrize(
    ("tree", "count"),
    [(TREE, 4), ([1, 2], 2), ((torch.ones(2), torch.ones(3)), None), ("text", None)],
)
def test_rows_are_counted_where_all_parts_agree(tree, count):
    assert row_count(tree) == count


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (torch.ones(2, 3), torch.ones(5, 4), True),
        (torch.ones(2), torch.ones(2, 1), False),
        (torch.ones(2), torch.ones(2).long(), False),
        ({"a": torch.ones(1)}, {"b": torch.ones(1)}, False),
        ((torch.ones(1),), (torch.ones(1), torch.ones(1)), False),
        (["a"], [torch.ones(1)], False),
        ([], [torch.ones(1)], True),
        ((torch.ones(1),), [torch.ones(1)], False),
    ],
)
def test_structures_are_compared_by_names_places_types_and_dimensions(one, other, same):
    assert same_structure(one, other) is same is same_structure(other, one)


def test_messages_describe_the_structure():
    assert described(Output((torch.zeros(2, 3), ["a"]))) == "Output(logits=(float32 (2, 3), a list of 1 (str)))"
    assert described({"x": [], "y": None}) == "{'x': an empty list, 'y': NoneType}"


def test_parts_with_another_number_of_rows_are_refused():
    check_rows(TREE, 4, what="targets")
    with pytest.raises(
        DataError, match=r"targets are \(int64 \(3,\), a list of 4 \(str\)\) for 4 inputs; expected one"
    ):
        check_rows((torch.arange(3), ["a"] * 4), 4, what="targets")
