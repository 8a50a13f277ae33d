"""Files are whole or absent, and damage is named."""

import json

import pytest

from metricopt.core.errors import FileFormatError
from metricopt.core.writing import write_json, write_text
from metricopt_lab.experiments.store import Store


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "r.json"
    write_json(path, {"kept": 1})
    with pytest.raises(TypeError):
        write_json(path, {"bad": object()})
    assert json.loads(path.read_text()) == {"kept": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_numbers_that_are_none_become_null_wherever_they_are(tmp_path):
    path = tmp_path / "r.json"
    write_json(path, {"a": [float("nan"), (float("-inf"), 2)]})
    assert json.loads(path.read_text()) == {"a": [None, [None, 2]]}


def test_a_folder_that_cannot_be_is_said_with_its_name(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(FileFormatError, match=r"file.x\.txt cannot be written .* choose another"):
        write_text(tmp_path / "file" / "x.txt", "text")


def test_a_damaged_record_is_named_with_what_to_do(tmp_path):
    store = Store(tmp_path)
    (tmp_path / "a.json").write_text('{"after": 0.')
    with pytest.raises(FileFormatError, match=r"a\.json is damaged .* delete the file to measure it again"):
        store.read("a")


def test_a_dropped_record_is_gone_and_dropping_it_again_is_no_error(tmp_path):
    store = Store(tmp_path)
    store.write("a", {})
    store.drop("a")
    store.drop("a")
    assert "a" not in store
