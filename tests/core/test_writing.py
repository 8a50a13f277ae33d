"""Files are whole or absent, and belong to the user."""

import os
import subprocess
import sys
import textwrap
import time

import pytest

from metricopt.core.errors import FileFormatError
from metricopt.core.writing import remove_drafts, write_bytes


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


DRAFT = ".a.0123456789abcdef.draft"


def test_drafts_of_killed_writers_are_removed_by_the_next_one_and_nothing_else(tmp_path):
    for name in (DRAFT, ".a.draft", "a.0123456789abcdef.draft", ".other.fedcba9876543210.draft"):
        (tmp_path / name).write_bytes(b"half")
    write_bytes(tmp_path / "b", b"whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".a.draft", "a.0123456789abcdef.draft", "b"]


@pytest.mark.skipif(sys.platform == "win32", reason="locks of POSIX")
def test_the_draft_of_a_writer_at_work_is_left_alone_until_that_is_killed(tmp_path):
    body = f"""
        import os, sys, time
        from pathlib import Path
        from metricopt.core import writing
        writing.os.fsync = lambda _: (print("writing", flush=True), time.sleep(60))
        writing.write_bytes(Path({str(tmp_path)!r}, "a"), b"whole")
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(body)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == b"writing\n"
        remove_drafts(tmp_path)
        assert len(list(tmp_path.iterdir())) == 1
        writer.kill()
    end = time.monotonic() + 5
    while list(tmp_path.iterdir()) and time.monotonic() < end:
        remove_drafts(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_neither_followed_nor_removed_as_a_draft(tmp_path):
    (tmp_path / "mine").write_bytes(b"mine")
    (tmp_path / DRAFT).symlink_to(tmp_path / "mine")
    write_bytes(tmp_path / "b", b"whole")
    assert (tmp_path / "mine").read_bytes() == b"mine" and (tmp_path / DRAFT).is_symlink()
