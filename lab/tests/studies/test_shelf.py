"""The shelf: an entry is made by command, with what it was measured to save, and serves elsewhere by its name."""

import json

import pytest
from typer.testing import CliRunner

from metricopt.cli.app import app
from metricopt.core.errors import DataError
from metricopt.search.transfer.shelf import entries, from_shelf
from metricopt_lab.studies.shelf.sources import ELSEWHERE, SEED, SOURCES
from metricopt_lab.studies.shelf.text import measured, shelf_text
from metricopt_lab.studies.transfer.pairs import SIZES
from metricopt_lab.studies.transfer.racing import searched

NAME = "ranking_of_incomes"


def record(method, seed, needed):
    return {
        "data": "incomes_aucpr", "method": method, "seed": seed, "needed": needed, "queries": 200, "refused": "",
        "scale": "smoke", "granted": 150, "problem": "made up", "key": f"{method}-{seed}",
    }  # fmt: skip


RECORDS = [*(record("cold", seed, 150) for seed in range(3)), *(record(NAME, seed, 50 + seed) for seed in range(3))]


def test_the_text_and_an_entry_s_row_say_what_is_saved():
    assert "| +99 (+97 .. +101) | saves queries |" in shelf_text(RECORDS)
    assert "incomes_aucpr +99 (+97 .. +101) of 150 (3 seeds)" in measured(RECORDS, NAME)
    assert measured(RECORDS, "f1_of_incomes") == ""


def test_every_entry_is_tried_on_another_subject_and_with_rows_that_did_not_teach_it():
    for source in SOURCES.values():
        pools = {ELSEWHERE[place].pool for place in source.elsewhere}
        assert len(pools) == 2
    assert SEED not in range(100)


def test_an_entry_is_made_by_command_and_serves_a_search_elsewhere(tmp_path):
    (tmp_path / "shelf.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in RECORDS))
    command = ["shelve", NAME, "--results", str(tmp_path), "--out", str(tmp_path / "shelf"), "--scale", "smoke"]
    found = CliRunner().invoke(app, command)
    assert found.exit_code == 0, found.output
    assert "+99 (+97 .. +101) of 150" in entries(tmp_path / "shelf")[NAME].measured
    value = from_shelf(NAME, tmp_path / "shelf")
    assert (value.kind, value.outputs.numel()) == ("statistics", 0)
    problem, queries = ELSEWHERE["incomes_aucpr"].build("smoke", 0), SIZES["smoke"].queries
    ledger, transfer, _ = searched(problem, queries, queries=queries, seed=0, value=value)
    assert transfer.brought is not None
    assert transfer.brought.kind == "statistics"
    assert ledger.used == queries


def test_an_entry_that_was_not_measured_stays_off_the_shelf(tmp_path):
    command = ["shelve", NAME, "--results", str(tmp_path), "--out", str(tmp_path / "shelf")]
    with pytest.raises(DataError, match="expected what it saves elsewhere"):
        CliRunner().invoke(app, command, catch_exceptions=False)
