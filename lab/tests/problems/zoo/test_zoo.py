"""The problems of the quality benchmark: two halves that share nothing, and rows that are what the variants say."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from metricopt.core.errors import DataError
from metricopt.losses import fast_ap
from metricopt.metrics import mcr
from metricopt_lab.problems.zoo import DEVELOPMENT_SEEDS, FINAL_SEEDS, PROBLEMS, of_half, sources
from metricopt_lab.problems.zoo.building import Variant, built
from metricopt_lab.problems.zoo.sources import Pool

SPECS = [spec for _, spec in PROBLEMS.items()]


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("METRICOPT_CACHE", str(tmp_path))


def toy_pool(rows: int = 600, test: np.ndarray | None = None) -> Pool:
    draw = torch.Generator().manual_seed(0)
    inputs = torch.cat([torch.randn(rows, 4, generator=draw), torch.arange(float(rows))[:, None]], 1)
    target = torch.arange(rows) % 3
    return Pool(
        inputs, target, 3, groups={"side": (np.arange(rows) // 100) % 2, "kind": np.arange(rows) % 5}, test=test
    )


def build(variant: Variant, *, pool: Pool | None = None, seed: int = 0):
    return built("toy", lambda: pool or toy_pool(), mcr(), variant, labels_visible=True, seed=seed)


def numbers(data) -> set[float]:
    """Rows of a part, by the number that the last column holds."""
    return set(data.inputs[:, -1].tolist())


@pytest.mark.parametrize("half", ["development", "final"])
def test_each_half_has_every_source_variant_and_hidden_labels(half):
    mine = [spec for spec in SPECS if spec.half == half]
    assert {spec.source for spec in mine} == {"adult", "covtype", "cifar", "reviews", "clinc"}
    assert any(spec.variant.noisy or spec.variant.flipped for spec in mine)
    assert any(spec.variant.shift or spec.variant.pixel_noise for spec in mine)
    assert sum(spec.variant.sizes[1] == 500 for spec in mine) >= 3
    assert len(of_half(half, labels_visible=False)) == (6 if half == "development" else 4)


def test_the_halves_share_neither_seeds_nor_a_visible_problem():
    kinds = {half: {(spec.source, spec.variant, spec.metric().name) for spec in of_half(half, labels_visible=True)}
             for half in ("development", "final")}  # fmt: skip
    assert [len(kinds[half]) for half in kinds] == [14, 16]
    assert not kinds["development"] & kinds["final"]
    assert not set(DEVELOPMENT_SEEDS) & set(FINAL_SEEDS)


def test_a_threshold_does_it_all_on_no_more_than_a_quarter():
    assert len(SPECS) == 40
    assert sum(spec.kind == "threshold" for spec in SPECS) <= len(SPECS) / 4


def test_parts_have_no_row_in_common_and_the_same_seed_gives_the_same():
    problem, again, other = (build(Variant((300, 100, 200), epochs=1), seed=seed) for seed in (0, 0, 1))
    parts = [numbers(part) for part in (problem.train, problem.val, problem.test)]
    assert [len(part) for part in parts] == [300, 100, 200]
    assert len(set.union(*parts)) == 600
    assert numbers(again.val) == parts[1] != numbers(other.val)
    assert all(torch.equal(a, b) for a, b in zip(problem.net.parameters(), again.net.parameters(), strict=True))


def test_official_test_rows_are_test_rows_and_no_others():
    problem = build(Variant((300, 100, 0), epochs=1), pool=toy_pool(test=np.arange(550, 600)))
    assert numbers(problem.test) == set(range(550, 600))
    assert max(numbers(problem.train) | numbers(problem.val)) < 550


def test_a_shift_trains_on_one_side_and_asks_and_judges_on_the_other():
    problem = build(Variant((200, 100, 150), shift=("side", (0,), (1,)), epochs=1))
    assert {int(row) // 100 % 2 for row in numbers(problem.train)} == {0}
    assert {int(row) // 100 % 2 for row in numbers(problem.val) | numbers(problem.test)} == {1}


def test_noise_and_flips_touch_the_training_labels_alone():
    variant = (400, 100, 100)
    clean, noisy, flipped = (
        build(Variant(variant, epochs=1, **more)) for more in ({}, {"noisy": 0.6}, {"flipped": 0.5})
    )
    for other in (noisy, flipped):
        assert torch.equal(clean.train.inputs, other.train.inputs)
        assert torch.equal(clean.val.targets, other.val.targets)
        assert torch.equal(clean.test.targets, other.test.targets)
    changed = float((clean.train.targets != noisy.train.targets).double().mean())
    assert changed == pytest.approx(0.6 * 2 / 3, abs=0.08)  # one in three hits its old label
    positive = clean.train.targets == 1
    assert float(flipped.train.targets[positive].double().mean()) == pytest.approx(0.5, abs=0.12)
    assert torch.equal(clean.train.targets[~positive], flipped.train.targets[~positive])


def test_a_problem_of_retrieval_has_no_class_in_two_parts_and_a_network_that_embeds():
    pool = replace(toy_pool(), target=torch.arange(600) % 12, classes=12)
    problem = build(Variant((150, 60, 200), epochs=1, unseen=(5, 3, 4)), pool=pool)
    classes = [set(part.targets.tolist()) for part in (problem.train, problem.val, problem.test)]
    assert [len(each) for each in classes] == [5, 3, 4] and len(set.union(*classes)) == 12
    assert [len(part) for part in (problem.train, problem.val, problem.test)] == [150, 60, 200]
    assert problem.net(problem.val.inputs).shape == (60, 64) and problem.loss is fast_ap


def test_the_metric_is_told_the_groups_that_the_variant_names():
    problem = build(Variant((300, 100, 200), groups="kind", epochs=1))
    assert problem.train.groups is None
    assert problem.val.groups is not None
    assert problem.val.groups.tolist() == [int(row) % 5 for row in problem.val.inputs[:, -1]]


def test_text_that_was_not_embedded_is_missed_in_one_sentence():
    sources.reviews.cache_clear()
    with pytest.raises(DataError, match=r"reviews\.npz is missing; expected embeddings .* by `metricopt embed`$"):
        PROBLEMS["reviews_f1"].build(0)
