import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

from metricopt.core.errors import DataError
from metricopt.data.dataset import Examples
from metricopt.data.given import as_examples
from metricopt.data.sampling import batch_stream

INPUTS = torch.arange(12.0).reshape(6, 2)
TARGETS = torch.tensor([0, 1, 2, 0, 1, 2])
GROUPS = torch.tensor([5, 5, 5, 7, 7, 7])


class Doubles(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, i):
        return INPUTS[i].double().numpy(), int(TARGETS[i])


@pytest.mark.parametrize(
    "data",
    [
        (INPUTS, TARGETS),
        [INPUTS.tolist(), TARGETS.tolist()],
        (INPUTS.double().numpy(), TARGETS.numpy()),
        (np.flip(np.flip(INPUTS.numpy())), TARGETS),
        (np.flip(np.flip(INPUTS.numpy(), 0).copy(), 0), TARGETS.numpy()[::-1][::-1]),
        TensorDataset(INPUTS.double(), TARGETS),
        Doubles(),
        DataLoader(Doubles(), batch_size=4),
        Examples(INPUTS, TARGETS),
    ],
    ids=["tensors", "lists", "float64", "views", "reversed", "tensor dataset", "dataset", "loader", "examples"],
)
def test_all_kinds_of_data_become_the_same_tensors(data):
    examples = as_examples(data)
    assert torch.equal(examples.inputs, INPUTS) and examples.inputs.dtype == torch.float32
    assert torch.equal(examples.targets, TARGETS)
    assert examples.groups is None and len(examples) == 6


def test_a_third_part_is_groups():
    for data in ((INPUTS, TARGETS, GROUPS), TensorDataset(INPUTS, TARGETS, GROUPS)):
        groups = as_examples(data).rows(torch.tensor([4, 0])).groups
        assert groups is not None and groups.tolist() == [7, 5]


def test_the_callers_array_is_read_even_if_it_may_not_be_written_and_is_not_shared():
    array = INPUTS.numpy().copy()
    array.setflags(write=False)
    assert torch.equal(as_examples((array, TARGETS)).inputs, INPUTS)
    array = INPUTS.numpy().copy()
    examples = as_examples((array, TARGETS))
    array[:] = 0
    assert torch.equal(examples.inputs, INPUTS)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ((INPUTS, TARGETS[:5]), r"targets are int64 \(5,\) for 6 inputs"),
        ((INPUTS, TARGETS, GROUPS[:2]), r"groups are int64 \(2,\) for 6 inputs"),
        ((INPUTS, torch.tensor(1)), r"targets are int64 \(\) for 6 inputs"),
        ((1.0, 2.0), "inputs are the single number 1.0; expected one row an example"),
        ((INPUTS[:0], TARGETS[:0]), "there are no examples"),
        (([[1.0], [1.0, 2.0]], [0, 1]), "search holds a list that is no array"),
        ("rows.csv", "search is a str; expected \\(inputs, targets\\)"),
        ((INPUTS,), "search is a tuple"),
        (DataLoader([1.0, 2.0]), r"search yields float64 \(1,\); expected \(inputs, targets\)"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_data_that_are_not_examples_are_refused_with_what_was_found(data, sentence):
    with pytest.raises(DataError, match=sentence):
        as_examples(data, name="search")


def test_texts_and_tensors_of_different_shapes_are_lists_with_one_item_an_example():
    texts = as_examples((["a", "bc", "d"], [0, 1, 2])).rows(torch.tensor([2, 0]))
    assert texts.inputs == ["d", "a"] and texts.targets.tolist() == [2, 0]
    images = [torch.zeros(3, 4, 5), torch.ones(3, 6, 2)]
    found = as_examples((images, [0, 1])).rows(torch.tensor([1]))
    assert len(found) == 1 and torch.equal(found.inputs[0], images[1])


def batch(examples, *, sampling, size=3000, population=2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return next(batch_stream(examples, population, batch_size=size, sampling=sampling, generator=generator))


@pytest.mark.parametrize("sampling", ["plain", "balanced"])
def test_inputs_and_targets_of_a_batch_belong_together_and_every_row_turns_up(sampling):
    examples = Examples(torch.arange(20)[:, None], torch.arange(20) % 3)
    inputs, targets = batch(examples, sampling=sampling)
    assert inputs.shape == (2, 3000, 1) and targets.shape == (2, 3000)
    assert torch.equal(inputs[..., 0] % 3, targets)
    assert not torch.equal(inputs[0], inputs[1])
    for member in inputs:
        assert set(member.flatten().tolist()) == set(range(20))


@pytest.mark.parametrize("column", [False, True])
def test_balanced_batches_have_each_class_equally_often_and_plain_ones_as_often_as_the_data(column):
    targets = torch.tensor([3] * 90 + [7] * 9 + [1])
    examples = Examples(torch.zeros(100, 1), targets[:, None] if column else targets)
    for sampling, expected in (("balanced", {3: 1 / 3, 7: 1 / 3, 1: 1 / 3}), ("plain", {3: 0.9, 7: 0.09, 1: 0.01})):
        _, drawn = batch(examples, sampling=sampling, size=10_000)
        for label, share in expected.items():
            deviation = (share * (1 - share) / drawn.numel()) ** 0.5
            assert abs(float((drawn == label).double().mean()) - share) < 4 * deviation


def test_balanced_sampling_needs_one_class_an_example():
    examples = Examples(torch.zeros(4, 1), torch.ones(4, 3))
    with pytest.raises(DataError, match=r"targets are float32 \(4, 3\).*sampling='plain'"):
        batch(examples, sampling="balanced")


def test_the_stream_goes_on_with_new_batches_and_is_the_same_for_the_same_seed():
    examples = Examples(INPUTS, TARGETS)

    def three(seed):
        generator = torch.Generator().manual_seed(seed)
        stream = batch_stream(examples, 2, batch_size=8, sampling="plain", generator=generator)
        return torch.stack([next(stream)[1] for _ in range(3)])

    assert torch.equal(three(0), three(0))
    assert not torch.equal(three(0), three(1))
    assert not torch.equal(three(0)[0], three(0)[1])
