import errno
import json
import math
import os
import subprocess
import sys
import textwrap

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from metricopt.core.errors import FileFormatError
from metricopt.core.plain import packed, unpacked
from metricopt.run.events import EventLog, read_events


def test_events_are_read_back_in_order_with_their_kind_and_time(tmp_path):
    with EventLog(tmp_path / "new" / "log") as log:
        log.write("start", {"seed": 1})
        log.write("query", {"cost": 0.5, "phi": torch.ones(2)}, sync=True)
    events = read_events(tmp_path / "new" / "log")
    assert [(event["event"], event["time"] > 0) for event in events] == [("start", True), ("query", True)]
    assert unpacked(events[1]["phi"]).tolist() == [1.0, 1.0]


def test_listeners_hear_what_is_written_also_without_a_file():
    heard = []
    EventLog(None, [heard.append]).write("query", {"cost": 0.5})
    assert (heard[0]["event"], heard[0]["cost"]) == ("query", 0.5)


def test_numbers_that_json_lacks_become_null_so_that_any_reader_can_read_it(tmp_path):
    with EventLog(tmp_path / "log") as log:
        log.write("query", {"cost": math.nan, "bounds": (0.0, math.inf)})
    event = json.loads((tmp_path / "log").read_text(), parse_constant=pytest.fail)
    assert (event["cost"], event["bounds"]) == (None, [0.0, None])


@settings(deadline=None, max_examples=30)
@given(cut=st.integers(0, 200))
def test_a_file_cut_anywhere_keeps_its_whole_lines_and_can_be_appended_to(tmp_path_factory, cut):
    path = tmp_path_factory.mktemp("cut") / "log"
    with EventLog(path) as log:
        for index in range(3):
            log.write("query", {"index": index})
    whole = path.read_bytes()[:cut]
    path.write_bytes(whole)
    kept = whole.count(b"\n")
    assert [event["index"] for event in read_events(path)] == list(range(kept))
    with EventLog(path) as log:
        log.write("query", {"index": 9})
    assert [event["index"] for event in read_events(path)] == [*range(kept), 9]


def test_a_damaged_line_within_is_named(tmp_path):
    (tmp_path / "log").write_text('{"event": "start"}\nnonsense\n{"event": "query"}\n')
    with pytest.raises(FileFormatError, match=r"line 2 of .* is damaged"):
        read_events(tmp_path / "log")


@pytest.mark.parametrize("line", ["[1]", '{"kind": "query"}', '{"event": 3}', "null"])
def test_a_line_that_is_no_event_is_named(tmp_path, line):
    (tmp_path / "log").write_text(line + "\n")
    with pytest.raises(FileFormatError, match=r"line 1 of .* is (not an event|damaged .it holds a)"):
        read_events(tmp_path / "log")


def test_a_log_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(FileFormatError, match="cannot be read"):
        read_events(tmp_path / "log")


def test_two_runs_cannot_write_to_one_log_at_the_same_time(tmp_path):
    with EventLog(tmp_path / "log"), pytest.raises(FileFormatError, match="another run is writing"):
        EventLog(tmp_path / "log")
    EventLog(tmp_path / "log").close()


def test_a_full_disk_is_one_sentence_and_what_was_written_stays(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with EventLog(tmp_path / "log") as log:
        log.write("start", {})
        monkeypatch.setattr("metricopt.run.events.os.fsync", full)
        with pytest.raises(
            FileFormatError, match=r"cannot be written .No space left on device.; what was saved before"
        ):
            log.write("query", {}, sync=True)
    assert read_events(tmp_path / "log")[0]["event"] == "start"


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileFormatError, match="cannot be written"):
        EventLog(tmp_path / "file" / "log")


@settings(deadline=None)
@given(
    shape=st.lists(st.integers(0, 4), max_size=3),
    seed=st.integers(0, 100),
)
def test_arrays_keep_their_bits_and_shape(shape, seed):
    tensor = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    again = unpacked(json.loads(json.dumps(packed(tensor))))
    assert again.shape == tensor.shape and torch.equal(again, tensor)


@pytest.mark.parametrize(
    "data",
    [
        None,
        3,
        {},
        {"shape": [2], "float32": "AACAPw=="},
        {"shape": [-1], "float32": ""},
        {"shape": [1], "float32": "?"},
    ],
)
def test_a_damaged_array_is_one_sentence(data):
    with pytest.raises(FileFormatError, match="a stored array is damaged"):
        unpacked(data)


def test_a_changed_line_is_named_however_plausible_it_is(tmp_path):
    with EventLog(tmp_path / "log") as log:
        log.write("start", {})
        log.write("query", {"cost": 0.25})
    content = (tmp_path / "log").read_bytes()
    (tmp_path / "log").write_bytes(content.replace(b"0.25", b"0.15"))
    with pytest.raises(FileFormatError, match=r"line 2 of .* is damaged .its checksum is not that of its content"):
        read_events(tmp_path / "log")


def test_a_line_without_a_checksum_among_others_is_named_and_a_log_without_any_is_read(tmp_path):
    with EventLog(tmp_path / "log") as log:
        log.write("start", {})
    (tmp_path / "old").write_text('{"event": "start"}\n{"event": "query"}\n')
    (tmp_path / "log").write_bytes((tmp_path / "log").read_bytes() + b'{"event": "query"}\n')
    assert len(read_events(tmp_path / "old")) == 2
    with pytest.raises(FileFormatError, match=r"line 2 of .* is damaged .no checksum"):
        read_events(tmp_path / "log")


@pytest.mark.parametrize("content", [b"mine", b"a,b\n1,2", b'{"name": "x"}'])
def test_a_file_that_is_no_log_is_not_cut(tmp_path, content):
    (tmp_path / "log").write_bytes(content)
    with pytest.raises(FileFormatError, match="which is no event"):
        EventLog(tmp_path / "log")
    assert (tmp_path / "log").read_bytes() == content


POSIX = pytest.mark.skipif(sys.platform == "win32", reason="forks and limits of POSIX")


def said_by(body):
    """What a Python program prints; one of its own, as a process that has run tests must not fork."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(body)], check=True, capture_output=True, text=True
    ).stdout


@POSIX
def test_a_fork_of_a_run_does_not_keep_its_lock(tmp_path):
    body = f"""
        import os, signal, sys, time
        from pathlib import Path
        from metricopt.core.errors import FileFormatError
        from metricopt.run.events import EventLog
        path = Path({str(tmp_path)!r}, "log")
        log = EventLog(path)
        child = os.fork()
        if child == 0:
            time.sleep(60)
        time.sleep(0.2)
        try:
            EventLog(path)
        except FileFormatError:
            print("locked by the run")
        log.write("start", {{}})
        log.close()
        EventLog(path).close()
        print("free")
        os.kill(child, signal.SIGKILL)
    """
    assert said_by(body).split("\n")[:2] == ["locked by the run", "free"]
    assert [event["event"] for event in read_events(tmp_path / "log")] == ["start"]


@POSIX
def test_a_limit_of_file_sizes_is_one_sentence_and_whole_lines_survive_it(tmp_path):
    body = f"""
        import resource
        from pathlib import Path
        from metricopt.core.errors import FileFormatError
        from metricopt.run.events import EventLog
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        count = 0
        try:
            with EventLog(Path({str(tmp_path)!r}, "log")) as log:
                while True:
                    log.write("query", {{"index": count}})
                    count += 1
        except FileFormatError as error:
            print(count, error)
    """
    count, _, sentence = said_by(body).partition(" ")
    assert "cannot be written (File too large); what was saved before is unharmed" in sentence
    assert len(read_events(tmp_path / "log")) == int(count) > 5
    with EventLog(tmp_path / "log") as log:
        log.write("query", {"index": int(count)})
    assert len(read_events(tmp_path / "log")) == int(count) + 1


@POSIX
def test_a_log_has_the_rights_that_the_users_umask_leaves(tmp_path):
    before = os.umask(0o077)
    try:
        EventLog(tmp_path / "new" / "log").close()
    finally:
        os.umask(before)
    assert (tmp_path / "new" / "log").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
