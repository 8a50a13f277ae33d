"""Files are whole or absent, and belong to the user."""

import os

import pytest

from metricopt.core.errors import FileFormatError
from metricopt.core.writing import write_bytes


def test_a_file_is_replaced_and_no_draft_stays(tmp_path):
    write_bytes(tmp_path / "a", b"old")
    write_bytes(tmp_path / "a", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"new")]


def test_an_interrupted_write_leaves_what_was_there(tmp_path, monkeypatch):
    write_bytes(tmp_path / "a", b"old")

    def interrupted(_handle):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_bytes(tmp_path / "a", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"old")]


@pytest.mark.parametrize(("umask", "rights"), [(0o077, 0o600), (0o022, 0o644)])
def test_the_users_umask_is_respected(tmp_path, umask, rights):
    before = os.umask(umask)
    try:
        write_bytes(tmp_path / "a", b"mine")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == rights


def test_where_nothing_can_be_written_one_sentence_says_so(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FileFormatError, match=r"cannot be written .* unharmed"):
        write_bytes(tmp_path / "file" / "a", b"")
