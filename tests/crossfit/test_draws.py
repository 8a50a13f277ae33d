"""Rows of finetuning: folds are even, every row is left out once, batches have the promised mixture."""

import torch

from metricopt.crossfit.draws import draws_of, folds_of
from metricopt.crossfit.settings import Kind
from metricopt.data.dataset import Examples

VAL = Examples(torch.zeros(90, 1), torch.cat([torch.zeros(80), torch.ones(10)]).long())
TRAIN = Examples(torch.zeros(200, 1), torch.arange(200) % 2)


def test_folds_are_of_equal_size_and_spread_the_rare_class():
    fold_of = folds_of(VAL, 5, seed=3)
    assert torch.bincount(fold_of).tolist() == [18] * 5
    assert torch.bincount(fold_of[VAL.targets == 1]).tolist() == [2] * 5
    assert not torch.equal(fold_of, folds_of(VAL, 5, seed=4))


def test_without_classes_folds_are_random_and_even():
    real = Examples(torch.zeros(31, 1), torch.randn(31))
    assert sorted(torch.bincount(folds_of(real, 4, seed=0)).tolist()) == [7, 8, 8, 8]


def test_a_plain_epoch_shows_each_validation_row_once_and_as_many_training_rows():
    some = torch.arange(60)
    draws = draws_of(VAL, TRAIN, some, Kind(False, 1.0), shown=60, batch=30, seed=0, member="a")
    own, rest = draws.epoch(0)
    assert own.shape == rest.shape == (4, 15)
    assert sorted(own.flatten().tolist()) == list(range(60))
    assert len(set(rest.flatten().tolist())) == 60  # no training row twice
    assert not torch.equal(own, draws.epoch(1)[0]) and torch.equal(own, draws.epoch(0)[0])


def test_alone_means_that_no_training_row_is_drawn():
    own, rest = draws_of(VAL, TRAIN, torch.arange(60), Kind(False, 0.0), shown=60, batch=30, seed=0, member="a").epoch(
        0
    )
    assert own.shape == (2, 30) and rest.numel() == 0


def test_balanced_draws_each_class_as_often():
    draws = draws_of(VAL, TRAIN, torch.arange(90), Kind(True, 1.0), shown=4000, batch=400, seed=0, member="a")
    own, rest = draws.epoch(0)
    for data, drawn in ((VAL, own), (TRAIN, rest)):
        assert abs(float(data.targets[drawn].float().mean()) - 0.5) < 0.03  # 4000 draws: three standard deviations


def test_fewer_rows_than_a_batch_make_one_small_batch():
    own, _ = draws_of(VAL, TRAIN, torch.arange(10), Kind(False, 0.0), shown=10, batch=256, seed=0, member="a").epoch(0)
    assert own.shape == (1, 10)


def test_folds_by_class_share_no_class_and_have_about_as_many_rows():
    sizes = torch.tensor([2, 9, 3, 8, 2, 7, 3, 6, 4, 4])
    data = Examples(torch.zeros(int(sizes.sum()), 1), torch.arange(10).repeat_interleave(sizes))
    fold_of = folds_of(data, 3, seed=0, by_class=True)
    classes = [set(data.targets[fold_of == fold].tolist()) for fold in range(3)]
    assert sum(map(len, classes)) == len(set.union(*classes)) == 10
    assert max(torch.bincount(fold_of).tolist()) - min(torch.bincount(fold_of).tolist()) <= 7
    assert not torch.equal(fold_of, folds_of(data, 3, seed=1, by_class=True))


def test_batches_for_losses_of_pairs_have_several_rows_of_each_class_and_none_left_out():
    val = Examples(torch.zeros(60, 1), torch.arange(60) % 12)
    train = Examples(torch.zeros(80, 1), 100 + torch.arange(80) % 20)
    seen = (val.targets < 9).nonzero()[:, 0]
    draws = draws_of(val, train, seen, Kind(False, 1.0), shown=45, batch=18, seed=0, member="a", a_class=3)
    own, rest = draws.epoch(0)
    assert own.shape == rest.shape == (5, 9)
    for data, part in ((val, own), (train, rest)):
        for rows in part:
            _, counts = torch.unique(data.targets[rows], return_counts=True)
            assert counts.tolist() == [3, 3, 3] and len(set(rows.tolist())) == 9
    assert set(own.flatten().tolist()) <= set(seen.tolist())
