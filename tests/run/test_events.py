import errno
import json
import math

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
