import json

import pytest
import torch

from metricopt.core.errors import FileFormatError
from metricopt.run.events import NAME, read_events
from metricopt.run.folder import run_folder
from metricopt.run.journal import open_journal
from metricopt.run.ledger import Query, QueryLedger

START = {"settings": {"seed": 0, "queries": 10}, "model": {"fingerprint": "aa"}, "data": {"val": {"rows": 7}}}


def test_an_answer_is_recalled_for_the_same_number_and_bits_only(tmp_path):
    phi = torch.tensor([0.1, 0.2])
    with open_journal(tmp_path, START) as journal:
        journal.query(3, phi, {"cost": 0.5})
    with open_journal(tmp_path, START, resume=True) as journal:
        assert journal.recall(3, phi)["cost"] == 0.5
        assert journal.recall(4, phi) is None
        with pytest.raises(FileFormatError, match=r"query 3 asked about another phi before \(distance 5.96046e-08\)"):
            journal.recall(3, torch.tensor([0.1, 0.2 + 6e-8]))
        with pytest.raises(FileFormatError, match=r"query 3 asked about another phi before \(distance nan\)"):
            journal.recall(3, torch.zeros(5))


def test_a_folder_that_holds_a_run_is_not_written_to_unless_it_is_resumed(tmp_path):
    open_journal(tmp_path, START).close()
    before = (tmp_path / NAME).read_bytes()
    with pytest.raises(FileFormatError, match="holds a run already; expected an empty folder"):
        open_journal(tmp_path, START)
    assert (tmp_path / NAME).read_bytes() == before


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({**START, "settings": {"seed": 1, "queries": 10}}, "settings.seed was 0 and is 1"),
        ({**START, "model": {"fingerprint": "bb"}}, 'model.fingerprint was "aa" and is "bb"'),
        ({**START, "data": {"val": {"rows": 8}}}, "data.val.rows was 7 and is 8"),
        ({**START, "new": 1}, "new was not there and is 1"),
    ],
)
def test_another_run_is_refused_and_the_difference_is_named(tmp_path, changed, named):
    open_journal(tmp_path, START).close()
    with pytest.raises(FileFormatError, match=f"cannot be resumed: {named}"):
        open_journal(tmp_path, changed, resume=True)


def test_resuming_what_never_began_or_was_killed_in_its_first_line_begins_it(tmp_path):
    open_journal(tmp_path / "new", START, resume=True).close()
    (tmp_path / NAME).write_text('{"event": "sta')
    open_journal(tmp_path, START, resume=True).close()
    assert [event["event"] for event in read_events(tmp_path / NAME)] == ["start"]


def test_what_was_noted_before_is_not_noted_again_however_often_it_was(tmp_path):
    with open_journal(tmp_path, START) as journal:
        for _ in range(2):
            journal.note("forecast", {"predicted": [0.5], "seconds": 1.0})
    with open_journal(tmp_path, START, resume=True) as journal:
        for _ in range(3):
            journal.note("forecast", {"predicted": [0.5], "seconds": 2.0})
        journal.note("forecast", {"predicted": [0.25]})
    noted = [event["predicted"] for event in read_events(tmp_path / NAME) if event["event"] == "forecast"]
    assert noted == [[0.5], [0.5], [0.5], [0.25]]


def test_a_sheet_asks_for_what_the_journal_lacks_and_enters_all_in_order(tmp_path):
    phi = torch.arange(6.0).reshape(3, 2)
    with open_journal(tmp_path, START) as journal:
        sheet = QueryLedger(journal=journal).sheet(phi, stage="value")
        sheet.write(1, Query("value", 0.25, 0.75, kept=(0.5,), violation=0.125), sync=True)
    with open_journal(tmp_path, START, resume=True) as journal:
        ledger = QueryLedger(journal=journal)
        sheet = ledger.sheet(phi, stage="value")
        assert sheet.missing == [0, 2]
        sheet.write(2, Query("value", float("nan"), failure="busy"))
        sheet.write(0, Query("value", 0.5, 0.5))
        entered = sheet.enter()
    assert entered[0] == Query("value", 0.5, 0.5)
    assert entered[1] == Query("value", 0.25, 0.75, kept=(0.5,), violation=0.125)
    assert (entered[2].failure, ledger.failures, ledger.checks) == ("busy", 1, 1)
    with open_journal(tmp_path, START, resume=True) as journal:
        again = QueryLedger(journal=journal).sheet(phi, stage="value")
        assert again.missing == [] and again.enter()[2].failure == "busy"


def test_points_that_break_a_constraint_are_never_the_best_so_far():
    ledger = QueryLedger()
    ledger.restore([Query("s", 0.5), Query("s", 0.1, violation=0.2), Query("s", 0.4)])
    assert ledger.best_so_far().tolist() == [0.5, 0.5, 0.4]


def test_a_ledger_stops_when_more_fail_than_allowed_and_says_why():
    ledger = QueryLedger(max_failures=1)
    ledger.restore([Query("s", float("nan"), failure="first"), Query("s", 0.5)])
    assert ledger.stopped == ""
    ledger.restore([Query("s", float("nan"), failure="second")])
    assert ledger.stopped == "2 of 3 metric queries failed, more than the 1 allowed; the last one: second"


def test_a_log_without_checksums_is_not_resumed(tmp_path):
    (tmp_path / NAME).write_text(json.dumps({"event": "start", "time": 0.0, **START}) + "\n")
    with pytest.raises(FileFormatError, match=r"a log without checksums, as metricopt 0\.1 wrote them"):
        open_journal(tmp_path, START, resume=True)


def test_a_folder_stays_the_same_wherever_the_metric_takes_us(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = run_folder("run")
    (tmp_path / "elsewhere").mkdir()
    with open_journal(folder, START) as journal:
        monkeypatch.chdir(tmp_path / "elsewhere")
        journal.note("forecast", {})
    assert folder == tmp_path / "run" and len(read_events(folder / NAME)) == 2
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_path_that_is_none_is_one_sentence():
    with pytest.raises(FileFormatError, match=r"run_dir is 3 .*; expected the path of a folder"):
        run_folder(3)


def test_drafts_of_a_killed_save_are_removed_when_the_run_is_resumed(tmp_path):
    open_journal(tmp_path, START).close()
    (tmp_path / ".result.json.0123456789abcdef.draft").write_text("{")
    open_journal(tmp_path, START, resume=True).close()
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


@pytest.mark.parametrize("values", [3, "x", [10**400], ["x"], [[0.5]], {"a": 1}])
def test_damaged_answers_beyond_the_queries_are_one_sentence(tmp_path, values):
    with open_journal(tmp_path, START) as journal:
        journal.note("asked", {"key": "noise", "values": values})
    with (
        open_journal(tmp_path, START, resume=True) as journal,
        pytest.raises(FileFormatError, match="of the event log are damaged; expected numbers"),
    ):
        QueryLedger(journal=journal).once("noise", lambda: None)
