"""Which query was kept is said, with the reason, and the numbers on the page are those of the result."""

import re

import numpy as np

from metricopt.report import page, read_run, run_of
from metricopt.report.choice import choice
from metricopt.report.figures.progress import progress_figure
from metricopt.report.figures.space import space_figure

COSTS = [0.5, 0.4, 0.45, 0.3]
POINTS = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]


def run_judged(proposal, *, accepted=True, **result):
    queries = [
        {"event": "query", "index": i, "stage": "value", "cost": cost, "phi": phi}
        for i, (cost, phi) in enumerate(zip(COSTS, POINTS, strict=True))
    ]
    held = {"event": "accepted", "before": 0.5, "after": 0.6, "interval": [0.01, 0.2], "accepted": accepted}
    start = {"event": "start", "metric": {"name": "f1", "goal": "max"}}
    return run_of([start, *queries, held, {"event": "result", "proposal": proposal, **result}])


def test_the_best_answer_is_named_as_such():
    said = choice(run_judged(POINTS[3]))
    assert said == "Kept is query 4 (stage value), the best answer on the search data: f1 0.7000."


def test_a_plainer_one_is_kept_because_the_best_was_not_surely_better_on_held_out_data():
    said = choice(run_judged(POINTS[1], plainer=True))
    assert said.startswith("Kept is query 2 (stage value), with f1 0.6000 on the search data. Query 4 answered better")
    assert "a start or a shift of the outputs" in said
    assert "not surely better" in said


def test_a_lead_that_may_be_luck_is_said_to_be_one():
    said = choice(run_judged(POINTS[1], plainer=False))
    assert "Query 4 answered better there (0.7000), but by no more than the luck of the best among 4 answers." in said


def test_what_was_not_accepted_is_judged_not_kept():
    run = run_judged(POINTS[3], accepted=False)
    assert choice(run).startswith("Judged is query 4")
    assert (run.judged, run.kept) == (3, None)


def test_a_search_that_ends_at_the_original_says_so():
    assert "nothing to keep" in choice(run_judged(POINTS[0], accepted=False))


def test_a_phi_that_no_query_asked_about_is_not_called_a_query():
    assert choice(run_judged([0.5, 0.5])) == ""
    assert choice(run_of([{"event": "query", "cost": 0.5}])) == ""


def test_the_figures_mark_the_query_that_was_kept_not_the_luckiest():
    run = run_judged(POINTS[1], plainer=True)
    assert "kept: query 2" in progress_figure(run).legend
    assert "<title>query 2, value: 0.6000</title></path>" in progress_figure(run).draw(760)
    assert "kept" in space_figure(run).legend


def test_a_real_run_names_the_query_with_the_very_phi_of_its_result(result):
    found, folder = result
    run = read_run(folder)
    assert np.array_equal(run.points[run.judged], found.proposal.numpy())
    assert f"query {run.judged + 1} " in page(run)


def test_all_calls_are_counted_where_they_were():
    text = page(run_judged(POINTS[3], calls=1006, decision_calls=1002))
    assert re.search(r"calls of the metric</dt><dd>1,006<small>4 to search, 1,002 to decide; none failed", text)
    assert "To decide took 1,002 further calls." in text
    assert "calls of the metric" not in page(run_judged(POINTS[3]))


def test_a_rival_on_test_data_is_set_beside_the_result():
    run = run_judged(POINTS[3])
    test = {"event": "test", "before": 0.5, "after": 0.61, "interval": [0.05, 0.15], "examples": 900}
    beside = {"before": 0.55, "after": 0.61, "interval": [0.02, 0.1], "level": 0.9}
    rival = {"event": "rival", "name": "bias tuning", "values": [0.5, 0.6], "test": beside}
    held = {"event": "accepted", **run.accepted}
    text = page(run_of([held, rival, test]))
    assert "There bias tuning has 0.5500; the gain over it is +0.0200 to +0.1000 (90% interval)." in text
