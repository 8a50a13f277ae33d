"""The shipped tables: small, without a row in two parts, shifted where they should be, and standardised."""

import importlib.util
import os
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
import torch

from metricopt.data.leakage import check_apart, shared_rows
from metricopt.demo.acts import CENSUS_CODES, CENSUS_SIZES, FOREST_CODES, FOREST_SIZES
from metricopt.demo.data import parts, shipped
from metricopt.demo.network import trained

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def forest():
    return parts(shipped("forests"), FOREST_CODES, sizes=FOREST_SIZES, seed=0)


def test_all_of_it_is_small_enough_for_a_wheel():
    files = list(resources.files("metricopt.demo").joinpath("files").iterdir())
    assert sum(len(file.read_bytes()) for file in files) < 500_000
    assert {file.name for file in files} == {"README.txt", "forests.npz", "incomes.npz"}


def test_training_rows_are_from_one_forest_and_all_others_from_the_other():
    table = shipped("forests")
    numbered = table._replace(columns={"row": np.arange(len(table.target))})
    train, val, test = (
        inputs[:, 0] * numbered.columns["row"].std()
        for inputs, _ in parts(numbered, (), sizes=(12_000, 500, 700), seed=3)
    )
    # Rawah's rows come first in the file, and standardising keeps the order of the numbers.
    assert train.max() < min(val.min(), test.min())


def test_no_row_is_in_two_parts(forest):
    census = parts(shipped("incomes"), CENSUS_CODES, sizes=CENSUS_SIZES, seed=0)
    for each in (forest, census):
        check_apart(each._asdict())
    (train, _), (val, _), (test, _) = forest
    assert shared_rows(train.numpy(), val.numpy()) == shared_rows(val.numpy(), test.numpy()) == 0


def test_numbers_are_standardised_by_the_training_rows_and_codes_become_indicators(forest):
    inputs, targets = forest.train
    numbers, codes = inputs[:, :10], inputs[:, 10:]
    assert torch.allclose(numbers.mean(0), torch.zeros(10), atol=1e-4)
    assert torch.allclose(numbers.std(0, correction=0), torch.ones(10), atol=1e-4)
    assert codes.sum(1).eq(1).all()
    assert codes.sum(0).min() >= 1
    assert targets.unique().tolist() == [0, 1, 2, 3]


def test_a_soil_unknown_to_the_training_rows_has_no_column(forest):
    codes = forest.test[0][:, 10:].sum(1)
    assert (codes <= 1).all()
    assert (codes == 0).any()


def test_another_seed_draws_other_rows():
    rows = [parts(shipped("forests"), ("soil",), sizes=(100, 100, 100), seed=seed).val[0][:, :10] for seed in (0, 0, 1)]
    assert torch.equal(rows[0], rows[1])
    assert not torch.equal(rows[0], rows[2])


def test_the_same_seed_trains_the_same_network_and_leaves_the_global_random_state_alone(forest):
    before = torch.get_rng_state()
    one, other = (trained((forest.val[0][:600], forest.val[1][:600]), outputs=4, seed=1).state_dict() for _ in range(2))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("name", ["forests", "incomes"])
def test_the_tool_that_packs_them_would_make_the_same_file(name):
    spec = importlib.util.spec_from_file_location("pack_demo", ROOT / "tools" / "pack_demo.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    source = _source(name)
    if not source.exists():
        pytest.skip(f"{source} is not here")
    made = (tool.forests if name == "forests" else tool.incomes)(source)
    with resources.files("metricopt.demo").joinpath(f"files/{name}.npz").open("rb") as file, np.load(file) as arrays:
        assert list(arrays.files) == list(made)
        assert all(np.array_equal(arrays[key], made[key]) and arrays[key].dtype == made[key].dtype for key in made)


def _source(name: str) -> Path:
    if name == "forests":
        return Path(os.environ.get("METRICOPT_DATA", "nowhere"), "covtype", "covtype.npz")
    return ROOT / "lab" / "src" / "metricopt_lab" / "data" / "files" / "adult.npz"
