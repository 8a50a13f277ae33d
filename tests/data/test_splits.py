import pytest
import torch

from metricopt.core.errors import DataError
from metricopt.core.seeding import stream
from metricopt.data.dataset import Examples
from metricopt.data.splits import facts_of, missing_classes, three_sets

X = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
Y = torch.arange(200) % 2
TRAIN = (X[:80], Y[:80])


def rows(examples):
    return {tuple(row) for row in examples.inputs.tolist()}


def test_without_a_holdout_a_random_forty_percent_of_val_is_set_aside():
    sets = three_sets(TRAIN, (X[80:], Y[80:]), None, seed=3)
    order = torch.randperm(120, generator=stream(3, "holdout"))
    assert torch.equal(sets["val"].inputs, X[80:][order[:72]])
    assert torch.equal(sets["holdout"].inputs, X[80:][order[72:]])
    assert torch.equal(sets["holdout"].targets, Y[80:][order[72:]])


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("count", [2, 3, 5])
def test_a_class_that_the_random_cut_would_lose_is_in_both_parts(seed, count):
    rare = torch.zeros(200, dtype=torch.long)
    rare[[0, 1, *range(100, 100 + count)]] = 1
    sets = three_sets((X[:80], rare[:80]), (X[80:], rare[80:]), None, seed=seed)
    assert all(1 in sets[name].targets for name in ("val", "holdout"))
    assert (len(sets["val"]), len(sets["holdout"])) == (72, 48)
    assert not rows(sets["val"]) & rows(sets["holdout"])
    assert rows(sets["val"]) | rows(sets["holdout"]) == {tuple(row) for row in X[80:].tolist()}


def test_the_only_row_of_a_class_is_searched_on():
    rare = torch.zeros(200, dtype=torch.long)
    rare[[0, 100]] = 1
    assert all(1 in three_sets((X[:80], rare[:80]), (X[80:], rare[80:]), None, seed=s)["val"].targets for s in range(5))


def test_targets_that_are_no_classes_are_cut_at_random_too():
    sets = three_sets((X[:80], X[:80, :1]), (X[80:], X[80:, :1]), None, seed=0)
    assert torch.equal(sets["val"].targets, sets["val"].inputs[:, :1])


def test_hidden_truth_is_told_the_row_numbers():
    sets = three_sets(TRAIN, X[80:140], X[140:], seed=0, hidden=True)
    assert sets["val"].targets.tolist() == list(range(60)) and sets["holdout"].targets.tolist() == list(range(60, 120))
    cut = three_sets(TRAIN, X[80:], None, seed=0, hidden=True)
    for part in (cut["val"], cut["holdout"]):
        assert torch.equal(part.inputs, X[80:][part.targets])


def test_a_fingerprint_tells_contents_apart():
    one, again = (three_sets(TRAIN, (X[80:], Y[80:]), None, seed=0) for _ in range(2))
    other = three_sets(TRAIN, (X[80:] + 1e-3, Y[80:]), None, seed=0)
    assert facts_of(one) == facts_of(again)
    assert facts_of(one)["train"] == facts_of(other)["train"] and facts_of(one)["val"] != facts_of(other)["val"]


def test_a_holdout_may_be_small_if_it_is_given():
    assert len(three_sets(TRAIN, (X[80:95], Y[80:95]), (X[95:97], Y[95:97]), seed=0)["holdout"]) == 2
    with pytest.raises(DataError, match="val has 15 rows; expected at least 20"):
        three_sets(TRAIN, (X[80:95], Y[80:95]), None, seed=0)


def test_classes_of_the_training_data_that_others_lack_are_told_and_no_error():
    codes = torch.tensor([0, 3, 1, 3, 2, 0])
    train = Examples(torch.zeros(6, 1), codes)
    assert missing_classes(train, train.rows(torch.tensor([0, 2]))) == [2, 3]
    assert missing_classes(train.rows(torch.tensor([0, 2])), train) == []
    numbers = Examples(torch.zeros(6, 1), codes.float())
    assert missing_classes(numbers, numbers.rows(torch.tensor([0]))) == []
    many = Examples(torch.zeros(1001, 1), torch.arange(1001))
    assert missing_classes(many, many.rows(torch.arange(5))) == []
    one_class = three_sets(TRAIN, (X[80:], torch.zeros(120, dtype=torch.long)), None, seed=0)
    assert missing_classes(one_class["train"], one_class["val"]) == [1]
