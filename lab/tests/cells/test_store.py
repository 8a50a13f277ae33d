"""Records in one file: whatever stops the writing, what was kept stays readable, and damage is named."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metricopt.core.errors import FileFormatError
from metricopt_lab.cells import Store


@pytest.fixture
def path(tmp_path):
    return tmp_path / "new" / "r.jsonl"


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


def test_what_was_appended_is_there_when_the_file_is_opened_again(path):
    Store(path).append({"key": "a", "after": 0.5, "note": "\u2028 é"})
    assert dict(Store(path)) == {"a": {"key": "a", "after": 0.5, "note": "\u2028 é"}}


def test_a_run_that_ends_leaves_its_records_sorted_one_a_line(path):
    store = Store(path)
    for key in "bca":
        store.append({"key": key})
    assert [record["key"] for record in lines(path)] == ["b", "c", "a"]
    store.sort()
    assert [record["key"] for record in lines(path)] == ["a", "b", "c"]


def test_sorting_a_sorted_file_does_not_touch_it(path):
    store = Store(path)
    store.append({"key": "a"})
    before = path.stat().st_mtime_ns, path.stat().st_ino
    store.sort()
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == before


@given(cut=st.integers(1, 40))
def test_a_line_torn_anywhere_counts_as_absent_and_the_next_record_is_whole(cut, tmp_path_factory):
    path = tmp_path_factory.mktemp("torn") / "r.jsonl"
    store = Store(path)
    store.append({"key": "a", "note": "é"})
    whole = path.read_bytes()
    store.append({"key": "b", "note": "é" * 20})
    path.write_bytes(path.read_bytes()[: max(len(whole), path.stat().st_size - cut)])
    again = Store(path)
    assert list(again) == ["a"]
    again.append({"key": "c"})
    assert [record["key"] for record in lines(path)] == ["a", "c"]


def test_of_two_records_with_one_key_the_later_one_counts(path):
    store = Store(path)
    store.append({"key": "a", "try": 1})
    store.append({"key": "a", "try": 2})
    assert store["a"] == Store(path)["a"] == {"key": "a", "try": 2}
    store.sort()
    assert lines(path) == [{"key": "a", "try": 2}]


def test_what_another_process_appends_meanwhile_survives_the_sorting(path):
    mine, other = Store(path), Store(path)
    other.append({"key": "b"})
    mine.append({"key": "a"})
    mine.sort()
    other.append({"key": "c"})
    other.sort()
    assert list(Store(path)) == ["a", "b", "c"]


@pytest.mark.parametrize("line", ['{"key": "a"', "[]", "{}", '{"key": 1}', ""])
def test_a_damaged_line_within_the_file_is_named_with_what_to_do(line, path):
    path.parent.mkdir()
    path.write_text(f'{{"key": "x"}}\n{line}\n{{"key": "z"}}\n')
    with pytest.raises(
        FileFormatError, match=r"line 2 of .*r\.jsonl is damaged .* delete the line to measure it again"
    ):
        Store(path)


def test_numbers_that_are_none_become_null(path):
    Store(path).append({"key": "a", "gains": [float("nan"), float("inf")]})
    assert Store(path)["a"]["gains"] == [None, None]


def test_a_file_that_cannot_be_is_said_with_its_name(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(FileFormatError, match=r"file.r\.jsonl cannot be"):
        Store(tmp_path / "file" / "r.jsonl").append({"key": "a"})
