"""Figures and their readings: numbers against closed forms and independent libraries."""

import re

import numpy as np
import pytest
from sklearn.decomposition import PCA

from metricopt.report import read_run, run_of
from metricopt.report.figures.classes import class_changes, class_figure
from metricopt.report.figures.forecasts import agreement_figure, forecast_figure
from metricopt.report.figures.line import along, line_figure
from metricopt.report.figures.progress import progress_figure
from metricopt.report.figures.space import embedding_figure, principal_plane, space_figure
from metricopt.report.figures.trajectories import trajectory_figure
from metricopt.report.scale import telling_span, tick_texts, ticks
from metricopt.report.tables import stage_table


def run_with(costs, *more, goal="max"):
    queries = [{"event": "query", "index": i, "stage": "value", "cost": cost} for i, cost in enumerate(costs)]
    return run_of([{"event": "start", "metric": {"name": "f1", "goal": goal}}, *queries, *more])


def test_the_reading_of_the_progress_says_when_the_gain_came():
    figure = progress_figure(run_with([0.5, 0.4, 0.45, 0.3, 0.35]))
    assert figure.reading == (
        "On the search data the best answer went from 0.5000 to 0.7000 in 5 queries: half of that after 2, all of it "
        "after 4."
    )


def test_no_gain_is_said_as_such():
    assert (
        "No query in 3 queries answered better than the original's 0.7000"
        in progress_figure(run_with([0.3, 0.4, 0.5])).reading
    )


def test_every_answer_is_a_mark_and_a_failure_is_none():
    drawn = progress_figure(run_with([0.5, None, 0.4, 0.3])).draw(760)
    assert drawn.count("<title>query ") == 3


def test_answers_far_off_sit_on_the_edge_and_are_counted():
    figure = progress_figure(run_with([0.3] * 40 + [0.95]))
    assert "1 answer outside the range is drawn on its edge" in figure.reading


def test_rivals_are_named_with_what_they_reached():
    rival = {"event": "rival", "name": "threshold tuning", "values": [0.5, 0.62]}
    figure = progress_figure(run_with([0.5, 0.4, 0.3], rival))
    assert "(threshold tuning got to 0.6200 with 2)" in figure.reading
    assert "threshold tuning" in figure.legend


def test_the_share_of_answers_within_two_deviations_is_counted():
    forecast = {"event": "forecast", "first": 0, "predicted": [0.5, 0.5, 0.5, 0.5], "std": [0.1, 0.1, 0.01, 0.1]}
    figure = forecast_figure(run_with([0.5, 0.6, 0.6, 0.45], forecast))
    assert "75% of the answers lie within two" in figure.reading
    assert "off by 0.0625 on average" in figure.reading


@pytest.mark.parametrize(
    ("predicted", "meaning"),
    [([0.1, 0.2, 0.3, 0.4], "told good from bad proposals"), ([0.4, 0.3, 0.2, 0.1], "could not tell")],
)
def test_the_reading_of_the_agreement_follows_the_correlation(predicted, meaning):
    forecast = {"event": "forecast", "first": 0, "predicted": predicted}
    assert meaning in agreement_figure(run_with([0.15, 0.2, 0.35, 0.5], forecast)).reading


def test_the_plane_is_that_of_principal_component_analysis():
    points = np.random.default_rng(1).normal(size=(30, 5)) * [5, 3, 1, 1, 1]
    places, explained = principal_plane(points)
    theirs = PCA(2).fit(points)
    assert explained == pytest.approx(theirs.explained_variance_ratio_.sum())
    assert np.allclose(np.abs(places), np.abs(theirs.transform(points)))


def test_shares_of_the_way_and_distances_from_it(folder):
    run = read_run(folder)
    share, distance = along(run)
    rebuilt = np.hypot(share * np.linalg.norm(run.proposal), distance)
    assert np.allclose(rebuilt, np.linalg.norm(run.points, axis=1), atol=1e-6)
    assert share[0] == 0
    assert distance[0] == 0


def test_changes_by_class_are_those_of_the_two_models(result):
    found, folder = result
    changes = class_changes(read_run(folder))
    assert sum(each.examples for each in changes) == found.comparison.examples
    right = {each.name: (each.right_before, each.right_after) for each in changes}
    # F1 of a two-class problem from the counts of right ones alone.
    for which, value in enumerate((found.comparison.before, found.comparison.after)):
        true = right["1"][which]
        wrong = changes[1].examples - true + changes[0].examples - right["0"][which]
        assert 2 * true / (2 * true + wrong) == pytest.approx(value)


def test_nobody_won_or_lost_gives_no_picture():
    changes = {"classes": [0, 1], "examples": [5, 5], "right_before": [5, 4], "won": [0, 0], "lost": [0, 0]}
    assert class_figure(run_with([0.5], {"event": "accepted", "changes": changes})) is None


def test_the_ledger_counts_by_stage_what_changed_nothing():
    rows = re.findall(r'data-value="([^"]*)"', stage_table(run_with([0.5, 0.4, 0.4, 0.4, None, 0.3])))
    queries, failed, best, median, became_best, no_change = map(float, rows)
    assert (queries, failed, became_best, no_change) == (6, 1, 3, 2)
    assert (best, median) == pytest.approx((0.7, 0.6))


def test_a_default_run_has_its_figures(folder):
    run = read_run(folder)
    made = [
        make(run)
        for make in (progress_figure, class_figure, forecast_figure, agreement_figure, space_figure, line_figure)
    ]
    assert [figure.key for figure in made] == ["progress", "classes", "forecasts", "agreement", "space", "line"]
    assert "training loss" in made[-1].reading
    assert trajectory_figure(run) is None
    assert embedding_figure(run) is None


def test_a_run_of_the_papers_recipe_has_its_paths_and_its_embedding(paper_folder):
    run = read_run(paper_folder)
    assert re.match(r"3 queries on each of \d+ paths of 50 loss steps", trajectory_figure(run).reading)
    assert "the metric is ordered with a rank correlation of" in embedding_figure(run).reading
    assert agreement_figure(run) is not None  # on paths the network never saw
    assert forecast_figure(run) is None


@pytest.mark.parametrize("draw", [760.0, 350.0])
def test_no_mark_lies_outside_its_drawing(folder, draw):
    run = read_run(folder)
    for make in (progress_figure, forecast_figure, agreement_figure, space_figure, line_figure):
        drawn = make(run).draw(draw)
        height = float(re.search(r'viewBox="0 0 \S+ (\S+)"', drawn).group(1))
        for x, y in re.findall(r'<circle[^>]* cx="(\S+)" cy="(\S+)"', drawn):
            assert 0 <= float(x) <= draw
            assert 0 <= float(y) <= height


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.6612, 0.6634), (-3, 800), (0, 1e-9), (99.5, 100)])
def test_ticks_are_inside_evenly_spaced_and_can_be_told_apart(low, high):
    found = ticks(low, high, 5)
    assert 3 <= len(found) <= 11
    assert low - 1e-12 <= found[0] < found[-1] <= high + 1e-12
    assert np.allclose(np.diff(found), found[1] - found[0])
    if high > 1e-6:
        assert len(set(tick_texts(found))) == len(found)


def test_the_telling_range_drops_the_worst_tenth_at_most():
    values = np.concatenate([np.zeros(5), np.linspace(0.7, 0.8, 95)])
    low, high = telling_span(values, sign=1.0)
    assert (values < low).sum() <= 10
    assert high > 0.8
