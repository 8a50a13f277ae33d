"""Data sets that are read as they are needed."""

import random

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset

from metricopt.core.errors import DataError
from metricopt.data.given import as_data, as_examples
from metricopt.data.lazy import LazyExamples
from metricopt.data.sampling import index_stream
from metricopt.data.splits import cut, missing_classes, three_sets


class Squares(Dataset):
    """Row i is (i, i % 3), and remembers that it was read."""

    def __init__(self, rows=30):
        self.count, self.read = rows, []

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        if not 0 <= i < self.count:
            raise IndexError(i)
        self.read.append(i)
        return torch.tensor([float(i)]), i % 3


class Noisy(Squares):
    """Augmentation by all three global generators, as users write it."""

    def __getitem__(self, i):
        noise = random.random() + np.random.rand() + float(torch.rand(()))  # noqa: NPY002
        return torch.tensor([i + noise]), i % 3


def test_a_dataset_is_read_batch_by_batch_and_only_what_is_asked_for():
    source = Squares()
    data = as_data(source)
    assert isinstance(data, LazyExamples) and len(data) == 30 and source.read == [0]  # one row, to know its structure
    batch = data.batch(torch.tensor([7, 3, 7]))
    assert batch.inputs.flatten().tolist() == [7, 3, 7] and batch.targets.tolist() == [1, 0, 1]
    assert source.read[1:] == [7, 3, 7]
    some = data.rows(torch.tensor([20, 10, 5])).rows(torch.tensor([2, 0]))
    assert len(source.read) == 4 and some.batch(torch.tensor([0, 1])).inputs.flatten().tolist() == [5, 20]


def test_the_truth_is_read_once_and_kept():
    source = Squares()
    data = as_data(source)
    assert data.truth[0].tolist() == [i % 3 for i in range(30)]
    read = len(source.read)
    assert data.truth[0].tolist() == [i % 3 for i in range(30)] and len(source.read) == read


def test_a_loader_brings_its_own_collate_function_and_batch_size():
    def tens(rows):
        return torch.stack([10 * x for x, _ in rows]), torch.tensor([y for _, y in rows])

    data = as_data(DataLoader(Squares(), batch_size=4, collate_fn=tens))
    assert data.batch_size == 4 and data.batch(torch.tensor([2])).inputs.tolist() == [[20.0]]
    own = as_data(DataLoader(Squares(), batch_size=4), collate=tens)
    assert own.batch(torch.tensor([2])).inputs.tolist() == [[20.0]]


def test_a_collate_function_that_fails_names_the_row():
    class Ragged(Squares):
        def __getitem__(self, i):
            return torch.zeros(3 if i == 6 else 2), 0

    with pytest.raises(
        DataError, match=r"the collate function of val raised RuntimeError for 5 rows, at row 6: .*colla"
    ):
        as_data(Ragged(), name="val").batch(torch.tensor([2, 4, 6, 8, 10]))


def test_a_row_that_cannot_be_read_is_named():
    class Broken(Squares):
        def __getitem__(self, i):
            if i == 9:
                raise OSError("truncated file")
            return super().__getitem__(i)

    with pytest.raises(DataError, match=r"row 9 of train cannot be read \(OSError: truncated file\)"):
        as_data(Broken(), name="train").batch(torch.tensor([1, 9]))


def test_a_collate_function_that_loses_rows_is_refused():
    def first(rows):
        return torch.stack([x for x, _ in rows[:1]]), torch.tensor([0])

    data = as_data(Squares(), collate=first)
    with pytest.raises(DataError, match=r"made inputs float32 \(1, 1\) of 3 rows; expected one row an example"):
        data.batch(torch.arange(3))


def test_rows_without_numbers_or_without_a_length_are_refused():
    class Endless(IterableDataset):
        def __iter__(self):
            return iter([(torch.zeros(1), 0)])

    class Unknown:
        def __getitem__(self, i):
            return torch.zeros(1), 0

    for given in (Endless(), DataLoader(Endless())):
        with pytest.raises(DataError, match=r"train is an IterableDataset \(Endless\), whose rows have no numbers"):
            as_data(given, name="train")
    with pytest.raises(DataError, match="train is a Unknown without a length; expected rows by number"):
        as_data(Unknown(), name="train")
    with pytest.raises(DataError, match="train: there are no examples"):
        as_data(Squares(rows=0), name="train")


def test_targets_that_differ_in_structure_are_refused():
    class Changing(Squares):
        def __getitem__(self, i):
            return torch.zeros(2), (torch.tensor([float(i)]) if i >= 20 else i)

    data = as_data(DataLoader(Changing(), batch_size=10), name="val")
    with pytest.raises(
        DataError, match=r"targets of val are int64 \(10,\) in the first batch and float32 \(10, 1\) in number 2"
    ):
        _ = data.truth


def test_augmentation_is_random_the_same_for_the_same_seed_and_leaves_the_global_generators_alone():
    data = as_data(Noisy())
    index = torch.arange(5)
    states = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()  # noqa: NPY002
    first, again, other = (data.batch(index, seed=seed).inputs for seed in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert len(set((first.flatten() - index).tolist())) == 5
    assert torch.equal(data.inputs_at(slice(0, 5)), data.inputs_at(slice(0, 5)))
    assert random.getstate() == states[0] and np.random.get_state()[1].tolist() == states[1]  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), states[2])


def test_overlapping_parts_of_one_data_set_are_refused_and_others_are_not():
    source = Squares(rows=100)
    train, val = Subset(source, range(40)), Subset(source, range(40, 100))
    sets = three_sets(train, val, None, seed=0)
    assert {name: len(part) for name, part in sets.items()} == {"train": 40, "val": 36, "holdout": 24}
    with pytest.raises(DataError, match=r"5 rows of 'val' are also rows of 'train' in the same data set.*row 35"):
        three_sets(train, Subset(source, range(35, 100)), None, seed=0)
    with pytest.raises(DataError, match="30 rows of 'val' are also rows of 'train'"):  # a part of a part
        three_sets(train, Subset(Subset(source, range(10, 70)), range(60)), None, seed=0)


@pytest.mark.parametrize("key", ["labels", "label", "y"])
def test_targets_of_a_mapping_are_told_by_their_name(key):
    class Texts(Squares):
        def __getitem__(self, i):
            return {"ids": torch.tensor([i, i]), "mask": torch.ones(2), key: i % 3}

    data = as_data(Texts())
    batch = data.batch(torch.tensor([4, 5]))
    assert data.label_key == key and set(batch.inputs) == {"ids", "mask"} and batch.targets.tolist() == [1, 2]

    class Unlabelled(Squares):
        def __getitem__(self, i):
            return {"ids": torch.tensor([i])}

    with pytest.raises(DataError, match=r"train yields \{'ids': int64 \(1, 1\)\}; expected one of labels, label"):
        as_data(Unlabelled(), name="train")


def test_a_data_set_that_reads_several_rows_at_once_is_asked_once_a_batch():
    class Table(Squares):
        def __getitems__(self, several):
            self.read.append(list(several))
            return [super(Table, self).__getitem__(i) for i in several]

        def __getitem__(self, i):
            raise AssertionError("row by row")

    source = Table()
    data = as_data(source)
    assert data.batch(torch.tensor([2, 9])).inputs.flatten().tolist() == [2, 9] and [2, 9] in source.read


class Told(Squares):
    """Classes that are known without reading a row, as those of torchvision's data sets."""

    def __init__(self, rows=60):
        super().__init__(rows)
        self.targets = [i % 3 for i in range(rows)]


def test_classes_that_are_told_spread_over_both_parts_and_balance_batches_without_reading_rows():
    source = Told()
    data = as_data(Subset(source, range(10, 60)))
    read = len(source.read)
    assert data.classes.tolist() == [i % 3 for i in range(10, 60)]
    drawn = next(
        index_stream(data, 1, batch_size=3000, sampling="balanced", generator=torch.Generator().manual_seed(0))
    )
    shares = torch.bincount(data.classes[drawn[0]]) / 3000
    assert bool((shares - 1 / 3).abs().max() < 4 * (2 / 9 / 3000) ** 0.5)
    one, other = cut(data, seed=0)
    assert missing_classes(data, one) == missing_classes(data, other) == [] and len(source.read) == read


def test_balanced_batches_of_classes_nobody_tells_are_refused():
    stream = index_stream(as_data(Squares()), 1, batch_size=4, sampling="balanced", generator=torch.Generator())
    with pytest.raises(DataError, match="targets are unknown before they are read; balanced sampling expects"):
        next(stream)


def test_a_lazy_data_set_read_whole_is_the_same_as_in_memory():
    examples = as_examples(Squares(rows=7))
    assert examples.inputs.flatten().tolist() == list(range(7)) and examples.targets.tolist() == [0, 1, 2, 0, 1, 2, 0]


def test_fingerprints_tell_contents_and_rows_apart():
    class Other(Squares):
        def __getitem__(self, i):
            return torch.tensor([i + 0.5]), i % 3

    first = as_data(Squares())
    assert first.fingerprint() == as_data(Squares()).fingerprint()
    assert first.fingerprint() != as_data(Other()).fingerprint()
    assert first.fingerprint() != first.rows(torch.arange(29)).fingerprint()
