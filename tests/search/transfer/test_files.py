"""Value functions in files and on the shelf: what was saved comes back, and what was damaged or renamed does not."""

import hashlib
import json

import pytest
import torch

from metricopt.core.errors import FileFormatError, UnknownNameError
from metricopt.search.transfer import CarriedValue, load_carried, save_carried
from metricopt.search.transfer.place import Place
from metricopt.search.transfer.shelf import SHELF, entries, from_shelf

PLACE = Place("f1", "max", "labels", "FiLM of 3, seed 0", 2, "rows", "original")


def value():
    draw = torch.Generator().manual_seed(0)
    shapes = {"costs": (5,), "points": (5, 3), "outputs": (5, 7, 2), "statistics": (5, 20)}
    tensors = {name: torch.randn(shape, generator=draw) for name, shape in shapes.items()}
    return CarriedValue(PLACE, **tensors, settings={"radius": 0.1}, about={"data": "made up"})


def test_what_was_saved_comes_back(tmp_path):
    saved = value()
    again = load_carried(save_carried(saved, tmp_path / "mine"))
    assert again.place == saved.place
    assert all(torch.equal(part, again.tensors[name]) for name, part in saved.tensors.items())
    assert (again.settings, again.about) == (saved.settings, saved.about)


def test_a_renamed_file_is_refused_by_both_names(tmp_path):
    path = save_carried(value(), tmp_path / "mine")
    other = path.rename(tmp_path / "yours.safetensors")
    with pytest.raises(FileFormatError, match=r"yours says that it is 'mine'.*rename it back"):
        load_carried(other)


@pytest.mark.parametrize("place", [3, 40, 600, -1])
def test_one_changed_byte_anywhere_is_noticed(tmp_path, place):
    path = save_carried(value(), tmp_path / "mine")
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(FileFormatError, match="damaged"):
        load_carried(path)


def test_numbers_that_are_not_finite_are_refused():
    with pytest.raises(FileFormatError, match="not finite"):
        CarriedValue(PLACE, torch.tensor([torch.nan]), torch.zeros(1, 3), torch.zeros(0, 0, 0), torch.zeros(0, 0))


def shelf_in(folder, **changes):
    path = save_carried(value(), folder / "mine")
    row = {"name": "mine", "sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "about": "a", "measured": "b"}
    (folder / "shelf.jsonl").write_text(json.dumps({**row, **changes}) + "\n")
    return path


def test_an_entry_is_loaded_by_name(tmp_path):
    shelf_in(tmp_path)
    assert from_shelf("mine", tmp_path).place == PLACE
    with pytest.raises(UnknownNameError, match="known: mine"):
        from_shelf("other", tmp_path)


def test_an_entry_whose_file_is_another_or_missing_is_refused(tmp_path):
    path = shelf_in(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content + b" ")
    with pytest.raises(FileFormatError, match="SHA-256"):
        from_shelf("mine", tmp_path)
    path.unlink()
    with pytest.raises(FileFormatError, match="cannot be read"):
        from_shelf("mine", tmp_path)


def test_a_renamed_entry_is_refused_though_its_row_says_so(tmp_path):
    path = shelf_in(tmp_path, name="yours")
    path.rename(tmp_path / "yours.safetensors")
    with pytest.raises(FileFormatError, match="rename it back"):
        from_shelf("yours", tmp_path)


def test_a_row_without_a_measurement_is_refused(tmp_path):
    (tmp_path / "shelf.jsonl").write_text('{"name": "mine"}\n')
    with pytest.raises(FileFormatError, match="measured"):
        entries(tmp_path)


@pytest.mark.parametrize("name", [*entries()] or [None])
def test_every_entry_that_is_shipped_loads_and_has_a_file_of_its_own(name):
    files = {path.stem for path in SHELF.glob("*.safetensors")}
    assert files == set(entries())
    assert name is None or len(from_shelf(name))


def test_the_kind_that_was_chosen_is_kept_in_the_file(tmp_path):
    assert load_carried(save_carried(value().only("phi"), tmp_path / "mine")).kind == "phi"
    assert load_carried(save_carried(value(), tmp_path / "any")).kind is None
