from dataclasses import dataclass
from typing import Any

import pytest
import torch

from metricopt.core.errors import DataError
from metricopt.core.reading import reader_of

LOGITS, HIDDEN = torch.zeros(2, 3), torch.ones(2, 8)


@dataclass
class Output:
    loss: Any = None
    logits: Any = None
    hidden_states: Any = None


@pytest.mark.parametrize(
    ("output", "path"),
    [
        (LOGITS, ()),
        ({"hidden": HIDDEN, "logits": LOGITS}, ("logits",)),
        ({"aux": HIDDEN, "out": LOGITS}, ("out",)),
        (Output(torch.tensor(1.0), LOGITS, (HIDDEN, HIDDEN)), ("logits",)),
        ({"whatever": LOGITS, "loss": torch.tensor(1.0)}, ("whatever",)),
        ((LOGITS, HIDDEN), (0,)),
        (({"logits": LOGITS}, HIDDEN), (0, "logits")),
    ],
    ids=["tensor", "mapping", "segmentation", "record", "the only one", "tuple", "nested"],
)
def test_the_tensor_of_usual_outputs_is_found_and_can_be_replaced(output, path):
    reader = reader_of(output)
    assert reader is not None and reader.path == path and reader(output) is LOGITS
    changed = reader.put(output, HIDDEN)
    assert reader(changed) is HIDDEN and reader(output) is LOGITS and type(changed) is type(output)


@pytest.mark.parametrize(
    "output",
    [[{"boxes": LOGITS}], {"a": LOGITS, "b": HIDDEN}, "text", (), Output(loss=torch.tensor(1.0))],
    ids=["a list an example", "two alike", "text", "nothing", "a loss only"],
)
def test_where_no_tensor_can_be_told_there_is_no_reader(output):
    assert reader_of(output) is None


@pytest.mark.parametrize("read", ["b", ("b",), lambda output: output["b"]], ids=["name", "way", "function"])
def test_what_the_user_names_is_read(read):
    output = {"a": LOGITS, "b": HIDDEN}
    reader = reader_of(output, read)
    assert reader is not None and reader(output) is HIDDEN
    assert reader.put(output, LOGITS)["b"] is LOGITS  # a function that only takes a part has a place too


def test_a_function_that_computes_its_tensor_can_be_read_but_not_replaced():
    output = {"a": LOGITS, "b": HIDDEN}
    reader = reader_of(output, lambda output: output["b"].sum(1))
    assert reader is not None and reader(output).tolist() == [8, 8]
    with pytest.raises(DataError, match="computes its tensor, which has no place in the output"):
        reader.put(output, LOGITS)


@pytest.mark.parametrize(
    ("read", "sentence"),
    [
        ("c", r"read='c' finds no tensor in the network's output \{'a': float32 \(2, 3\)\}; expected the name"),
        (0, "read=0 finds no tensor"),
        (("a", "x"), "finds no tensor"),
        (lambda output: output["c"], r"read raised KeyError \('c'\) on the network's output"),
        (lambda _: "text", "read gave a str from the network's output .*; expected a tensor"),
    ],
    ids=["name", "place", "way", "failing", "no tensor"],
)
def test_a_part_that_is_not_there_is_one_sentence(read, sentence):
    with pytest.raises(DataError, match=sentence) as caught:
        reader_of({"a": LOGITS}, read)
    assert "\n" not in str(caught.value)
