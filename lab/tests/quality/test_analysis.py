"""Standings, duels, targets, tables and plots from made-up rows with known answers."""

import math

import pytest
from scipy import stats

from metricopt_lab.quality.analysis import duels, gaining, mean_ranks, standings
from metricopt_lab.quality.plots import plot_gains, plot_wins
from metricopt_lab.quality.summary import summary_of_rows
from metricopt_lab.quality.tables import markdown
from metricopt_lab.quality.targets import (
    better_than_black_boxes,
    better_than_post_shift,
    evaluate_targets,
    more_dimensions,
    not_worse_than_post_shift,
    not_worse_than_rivals,
    original_where_nothing_gains,
    rank_correlations,
    rejected_unchanged,
    seldom_worse,
    time_needed,
)
from metricopt_lab.statistics.paired import paired

BEFORE = 0.4


def row(problem, method, seed, after, *, queries=150, accepted=True, kind="mismatch", goal="min", dim=32):
    """One run; with goal "max", natural units are 1 - cost."""
    guarded = method in ("metricopt", "metricopt_labels")
    costs = {"before": BEFORE, "after": after, "returned": after if accepted else BEFORE}
    return {
        "problem": problem, "kind": kind, "method": method, "seed": seed, "queries": queries, "film_dim": dim,
        "needs_labels": "label" in method, "guarded": guarded, "metric": "mcr", "goal": goal, "accepted": accepted,
        "rows": {"test": 1000}, "cost_standard_error": 0.002, "queries_used": queries,
        "rank_correlation": 0.9 if guarded else None, "seconds": 1.0, "cpu_seconds": 1.0,
        **{f"cost_{name}": cost for name, cost in costs.items()},
        **{f"test_{name}": cost if goal == "min" else 1 - cost for name, cost in costs.items()},
    }  # fmt: skip


def runs(problem, method, costs, **more):
    """One row a seed."""
    return [row(problem, method, seed, cost, **more) for seed, cost in enumerate(costs)]


def test_the_paired_test_is_scipys():
    ours, theirs = [0.31, 0.30, 0.35, 0.28], [0.33, 0.34, 0.35, 0.30]
    found = paired(dict(enumerate(ours)), dict(enumerate(theirs)))
    assert found.p_better == pytest.approx(stats.ttest_rel(theirs, ours, alternative="greater").pvalue)
    assert found.p_worse == pytest.approx(stats.ttest_rel(theirs, ours, alternative="less").pvalue)
    assert found.standard_error == pytest.approx(stats.sem([0.02, 0.04, 0.0, 0.02]))


def test_seeds_that_only_one_method_has_are_left_out():
    found = paired({0: 0.1, 1: 0.2, 7: 0.9}, {0: 0.2, 1: 0.3, 8: 0.0})
    assert found.seeds == 2
    assert found.mean == pytest.approx(0.1)


@pytest.mark.parametrize(("gain", "verdict"), [(0.05, "win"), (0.0, "tie"), (-0.05, "loss")])
def test_the_same_gain_with_every_seed_is_judged_by_its_sign(gain, verdict):
    found = paired({0: 0.25, 1: 0.25}, {0: 0.25 + gain, 1: 0.25 + gain})
    assert found.verdict == verdict
    assert found.not_worse == (gain >= 0)


def test_worse_by_less_than_one_standard_error_is_not_worse_and_by_more_is():
    theirs = {0: 0.30, 1: 0.30, 2: 0.30}
    assert paired({0: 0.29, 1: 0.30, 2: 0.32}, theirs).not_worse  # -0.0033 with a standard error of 0.0088
    assert not paired({0: 0.31, 1: 0.31, 2: 0.32}, theirs).not_worse  # -0.0133 with a standard error of 0.0033


def test_one_seed_is_never_significant():
    found = paired({0: 0.1}, {0: 0.9})
    assert math.isnan(found.standard_error)
    assert found.verdict == "tie"
    assert found.not_worse


def test_standings_are_in_natural_units_with_ranks_by_cost_and_shared_for_ties():
    rows = runs("p", "good", [0.1, 0.3], goal="max") + runs("p", "bad", [0.5, 0.5], goal="max")
    rows += runs("p", "as_bad", [0.4, 0.6], goal="max")
    table = {one.method: one for one in standings(rows)}
    assert table["good"].mean == pytest.approx(0.8)
    assert table["good"].standard_error == pytest.approx(0.1)
    assert table["good"].gain.mean == pytest.approx(0.2)
    assert {name: one.rank for name, one in table.items()} == {"good": 1.0, "bad": 2.5, "as_bad": 2.5}


def test_a_rejected_proposal_counts_for_a_rival_and_not_for_the_user_of_metricopt():
    rows = [row("p", name, 0, 0.9, accepted=False) for name in ("cma_es", "metricopt")]
    views = {view: {one.method: one.mean for one in standings(rows, view)} for view in ("user", "accepted", "proposal")}
    assert views["user"] == {"cma_es": 0.9, "metricopt": BEFORE}
    assert views["accepted"] == {"cma_es": BEFORE, "metricopt": BEFORE}
    assert views["proposal"] == {"cma_es": 0.9, "metricopt": 0.9}


def test_mean_ranks_are_means_over_problems():
    rows = [*runs("p", "a", [0.1]), *runs("p", "b", [0.2]), *runs("q", "a", [0.1]), *runs("q", "b", [0.1])]
    assert mean_ranks(rows) == {("a", 150): 1.25, ("b", 150): 1.75}


def test_duels_and_gains_are_told_apart_by_problem_and_budget():
    rows = runs("p", "metricopt", [0.20, 0.21, 0.22]) + runs("p", "cma_es", [0.30, 0.32, 0.33])
    rows += runs("q", "metricopt", [0.40, 0.41, 0.39]) + runs("q", "cma_es", [0.40, 0.39, 0.41])
    rows += runs("p", "cma_es", [0.1, 0.1, 0.1], queries=500)
    fought = duels(rows, "metricopt", 150)
    assert {key: gain.verdict for key, gain in fought.items()} == {("cma_es", "p"): "win", ("cma_es", "q"): "tie"}
    assert gaining(rows, 150) == {"p": ["metricopt", "cma_es"], "q": []}
    assert gaining(rows, 500) == {"p": ["cma_es"], "q": []}


def two_problems():
    """MetricOpt wins on p, loses on q to random search, and all methods gain on both."""
    rows = runs("p", "metricopt", [0.20, 0.21, 0.22]) + runs("q", "metricopt", [0.30, 0.31, 0.32])
    rows += runs("p", "cma_es", [0.30, 0.32, 0.33]) + runs("q", "cma_es", [0.35, 0.37, 0.36])
    rows += runs("p", "random_search", [0.30, 0.32, 0.33]) + runs("q", "random_search", [0.25, 0.27, 0.26])
    rows += runs("p", "post_shift", [0.35, 0.36, 0.37]) + runs("q", "post_shift", [0.31, 0.31, 0.31])
    return rows


def test_a_rival_that_is_better_by_more_than_one_standard_error_is_named():
    target = not_worse_than_rivals(two_problems(), "metricopt", 150)
    assert target.met is False
    assert target.found == "5 of 6 comparisons"
    assert len(target.against) == 1
    assert target.against[0].startswith("q against random_search: -0.05")


def test_half_of_the_problems_suffice_against_black_boxes_and_all_are_needed_against_post_shift():
    rows = two_problems()
    boxes = {target.name.split()[6]: target for target in better_than_black_boxes(rows, "metricopt", 150)}
    assert {name: (one.met, one.found) for name, one in boxes.items()} == {
        "random_search": (True, "1 of 2"),
        "cma_es": (True, "2 of 2"),
    }
    shift = better_than_post_shift(rows, "metricopt", 150)
    assert (shift.met, shift.found) == (False, "1 of 2")


def test_post_shift_need_not_be_beaten_where_a_threshold_can_do_it():
    rows = [one | {"kind": "threshold"} if one["problem"] == "q" else one for one in two_problems()]
    assert better_than_post_shift(rows, "metricopt", 150).found == "1 of 1"


def test_rivals_with_labels_are_compared_with_metricopt_with_labels_only():
    rows = runs("p", "metricopt", [0.3, 0.31]) + runs("p", "metricopt_labels", [0.2, 0.21])
    rows += runs("p", "label_finetune", [0.25, 0.26])
    assert not_worse_than_rivals(rows, "metricopt", 150).met is None
    assert not_worse_than_rivals(rows, "metricopt_labels", 150).found == "1 of 1 comparisons"


def test_without_a_gain_anywhere_the_original_must_come_back():
    rows = runs("p", "metricopt", [0.39, 0.41, 0.40], accepted=False)
    assert original_where_nothing_gains(rows, "metricopt", 150).met
    rows[0] = row("p", "metricopt", 0, 0.39)
    found = original_where_nothing_gains(rows, "metricopt", 150)
    assert found.met is False
    assert found.against == ("p at 150, seed 0: +0.0100",)


def test_worse_than_post_shift_at_the_smallest_budget_is_seen():
    rows = runs("p", "metricopt", [0.3, 0.3], queries=50) + runs("p", "post_shift", [0.29, 0.29], queries=50)
    assert not_worse_than_post_shift(rows, "metricopt", 50).met is False


def test_one_harmful_acceptance_in_twenty_runs_is_allowed_and_two_are_not():
    rows = runs("p", "metricopt", [0.41, *[0.3] * 19])
    assert seldom_worse(rows, "metricopt").met
    rows[1] = row("p", "metricopt", 1, 0.45)
    assert seldom_worse(rows, "metricopt").met is False
    rows[1] = row("p", "metricopt", 1, 0.45, accepted=False)
    assert seldom_worse(rows, "metricopt").met


def test_a_rejected_run_that_returns_something_else_is_seen():
    rows = runs("p", "metricopt", [0.3, 0.3], accepted=False)
    assert rejected_unchanged(rows, "metricopt").met
    rows[0]["cost_returned"] = 0.3
    assert rejected_unchanged(rows, "metricopt").met is False


def test_the_median_over_problems_of_the_rank_correlation_counts():
    rows = [
        row(name, "metricopt", 0, 0.3) | {"rank_correlation": c} for name, c in [("p", 0.1), ("q", 0.85), ("r", 0.9)]
    ]
    found = rank_correlations(rows, "metricopt")
    assert found.met
    assert found.against == ("p: 0.10",)


def test_more_dimensions_that_lose_significantly_are_seen():
    rows = runs("p", "metricopt", [0.30, 0.31, 0.32], dim=16) + runs("p", "metricopt", [0.29, 0.33, 0.31], dim=64)
    assert more_dimensions(rows, "metricopt").met
    rows += runs("p", "metricopt", [0.39, 0.40, 0.41], dim=256)
    assert more_dimensions(rows, "metricopt").met is False
    assert more_dimensions(rows[:3], "metricopt").met is None


def test_the_time_is_that_of_three_seeds_on_two_cores():
    rows = runs("p", "metricopt", [0.3] * 5)
    assert time_needed(rows, 5 * 3600).found == "90 minutes"
    assert time_needed(rows, 5 * 1800).met


def test_every_target_is_evaluated_once_for_each_of_our_methods():
    rows = [one | {"queries": queries} for one in two_problems() for queries in (50, 150, 500)]
    names = [target.name for target in evaluate_targets(rows, seconds=1.0)]
    assert len(names) == len(set(names)) == 2 * 5 + 1 + 4 + 1
    assert all("metricopt at 50:" not in name or "post-shift" in name for name in names)


def test_the_summary_names_missed_targets_and_marks_methods_that_need_labels():
    rows = two_problems() + runs("p", "label_finetune", [0.3, 0.3, 0.3])
    text = markdown(rows, summary_of_rows(rows, rows, seconds=1.0))
    assert "| label_finetune † " in text
    assert "**missed**" in text
    assert "q against random_search: -0.05" in text
    assert "0.2100 ± 0.0058 (1)" in text


def test_plots_are_pictures(tmp_path):
    rows = two_problems() + runs("p", "metricopt_labels", [0.3])
    plot_gains(rows, tmp_path / "gain.png")
    plot_wins(rows, tmp_path / "wins.png")
    assert all((tmp_path / name).read_bytes()[1:4] == b"PNG" for name in ("gain.png", "wins.png"))
