"""A run as rows and as a fragment for notebooks."""

import re

import pytest

from metricopt.report import read_run, run_of
from metricopt.report.history import COLUMNS, history
from metricopt.report.notebook import html_of


def query(index, cost, **more):
    return {"event": "query", "index": index, "stage": "value", "cost": cost, **more}


def test_rows_are_the_queries_of_the_ledger(result):
    found, folder = result
    rows = history(read_run(folder))
    assert rows.column("stage") == [each.stage for each in found.ledger.queries]
    assert rows.column("value") == pytest.approx([each.value for each in found.ledger.queries])
    assert rows.column("query") == list(range(1, 41))
    best = found.metric.natural(found.ledger.best_so_far()).tolist()
    assert rows.column("best") == pytest.approx(best)
    assert sum(rows.column("kept")) == int(found.accepted)


def test_a_failure_has_no_value_and_a_broken_constraint_is_never_best():
    rows = history(run_of([query(0, None), query(1, 0.5), query(2, 0.1, violation=0.2), query(3, 0.4)]))
    assert rows.column("value") == [None, 0.5, 0.9, 0.6]
    assert rows.column("best") == [None, 0.5, 0.5, 0.6]


def test_a_long_table_is_shown_by_its_ends_and_whole_by_its_rows():
    rows = history(run_of([query(i, 0.5) for i in range(300)]))
    assert len(rows) == len(list(rows)) == 300
    assert len(repr(rows).splitlines()) == 1 + 5 + 1 + 5
    assert rows[-1]["query"] == 300
    assert len(rows[:7]) == 7
    assert rows._repr_html_().count("<tr>") == 12


def test_what_was_kept_is_always_among_the_rows_shown(folder):
    rows = history(read_run(folder))
    assert repr(rows).count("kept") == 1 + sum(rows.column("kept"))
    assert repr(rows).splitlines()[0].split() == list(COLUMNS)


def test_names_from_outside_are_text():
    run = run_of([{"event": "start", "metric": {"name": "<b>"}}, query(0, 0.5) | {"stage": "<i>"}])
    for html in (html_of(run), history(run)._repr_html_()):
        assert "<b>" not in html
        assert "<i>" not in html


def test_the_fragment_says_what_the_result_says_and_brings_nothing_that_could_meet_the_notebook(result):
    found, folder = result
    html = html_of(read_run(folder))
    assert f"{found.comparison.before:.4f}" in html
    assert f"{found.comparison.after:.4f}" in html
    assert not re.search(r"<style|<script|\bid=|\bsrc=|\bhref=|http", html)
    assert len(html) < 20_000
    assert html.count("<div") == html.count("</div>")
    assert html.count("<g") == html.count("</g>")


@pytest.mark.parametrize("events", [[], [query(0, None)], [query(0, 0.5)]])
def test_an_unfinished_run_has_a_fragment_too(events):
    assert html_of(run_of(events)).startswith("<div")


def test_a_result_and_a_comparison_print_in_one_line_each(result_without_folder):
    result = result_without_folder
    assert len(repr(result)) < 100
    assert repr(result).startswith(f"<Result {result.metric.name}: {result.comparison.before:.4f} -> ")
    for text in (str(result), str(result.comparison)):
        assert f"-> {result.comparison.after:.4f} on {result.comparison.examples} " in text
        assert "\n" not in text
