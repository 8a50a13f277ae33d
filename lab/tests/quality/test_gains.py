"""Normalised gains, intervals, duels, verdicts and targets against closed forms."""

import pytest

from metricopt_lab.quality.acceptance import verdicts
from metricopt_lab.quality.duels import differences, duel, word
from metricopt_lab.quality.gains import best_gains, difference, interval, mean_of, normalised, seen
from metricopt_lab.quality.readme import readme_part
from metricopt_lab.quality.recipes import by_recipe, widest
from metricopt_lab.quality.tables import gain_table, markdown, ordered, queries_needed
from metricopt_lab.quality.targets import better, fewer_queries, highest, not_worse, targets
from metricopt_lab.quality.timing import ratio
from metricopt_lab.statistics.paired import paired

P, Q, HIDDEN = "adult_aucpr", "covtype_shift_kappa", "covtype_shift_mcr_hidden"


def record(problem=P, method="metricopt", seed=0, queries=150, gain=0.1, proposed=None, **more):
    return {
        "key": f"{problem}{seed}{method}{queries}", "problem": problem, "method": method, "seed": seed,
        "queries": queries, "metric": "mcr", "offered": True, "cost_before": 0.5, "cost_returned": 0.5 - gain,
        "cost_proposed": 0.5 - (gain if proposed is None else proposed), "seconds": 4.0, "cpu_seconds": 4.0,
        "version": 1, "calls": queries, "details": {"accepted": proposed is None, "wanted_confidence": 0.9}, **more,
    }  # fmt: skip


def family(problem=P, **gains):
    """Records of each method with its gains by seed."""
    return [record(problem=problem, method=name, seed=seed, gain=gain)
            for name, each in gains.items() for seed, gain in enumerate(each)]  # fmt: skip


def test_the_best_gain_is_a_mean_over_seeds_of_one_method_at_one_budget():
    records = [*family(a=(0.1, 0.3), b=(0.4, -0.2)), record(method="b", queries=500, seed=0, gain=0.15)]
    assert best_gains(records)[P] == pytest.approx(0.2)


def test_the_lucky_seed_of_a_method_that_has_no_other_is_not_the_best_gain_and_is_told_as_one_seed():
    records = [record(seed=seed, gain=0.1) for seed in range(3)] + [record(method="lucky", seed=0, gain=0.4)]
    assert best_gains(records)[P] == pytest.approx(0.1)
    assert "| 4.00 (4.00 .. 4.00), 1 seed |" in gain_table(records)
    assert "1.00 (1.00 .. 1.00) " in gain_table(records)


def test_normalised_gains_are_shares_of_the_best_and_a_loss_counts_minus_one_at_most():
    found = normalised(family(a=(0.1, 0.3), b=(0.05, -0.9)))
    assert found["a", 150][P] == pytest.approx({0: 0.5, 1: 1.5})
    assert found["b", 150][P] == pytest.approx({0: 0.25, 1: -1.0})
    assert mean_of(found["a", 150]) == pytest.approx(1.0)


def test_where_nobody_gains_half_a_point_noise_is_not_blown_up():
    assert normalised(family(a=(0.001,), b=(-0.002,)))["b", 150][P] == pytest.approx({0: -0.4})


def test_readme_shows_means_over_problems_that_were_measured_with_all_seeds_and_budgets():
    whole = [record(seed=seed, queries=queries) for seed in (0, 1) for queries in (50, 150)]
    text = readme_part([*whole, record(problem=Q, gain=-0.2)], "final")
    assert "(1 problems, 2 seeds;" in text and text.count("1.00") == 6  # a mean with its interval, at two budgets


def test_a_method_without_an_offer_and_the_other_kind_of_labels_are_left_out():
    records = [record(), record(offered=False), record(problem=HIDDEN)]
    assert [len(seen(records, labels_visible=each)) for each in (True, False)] == [1, 1]


def test_an_interval_covers_the_mean_and_shrinks_with_problems_that_agree():
    wide = interval({"p": {0: 0.0, 1: 0.2}, "q": {0: 0.8, 1: 1.0}})
    narrow = interval({str(number): {0: 0.45, 1: 0.55} for number in range(20)})
    assert wide.mean == pytest.approx(0.5)
    assert wide.low < 0.2 and wide.high > 0.8
    # 20 means of two draws, .05 off each: a standard error of .05 / sqrt(2) / sqrt(20), 1.645 of them on either side.
    assert narrow.high - narrow.low == pytest.approx(2 * 1.645 * 0.05 / 40**0.5, rel=0.2)


def test_a_difference_is_paired_by_problem_and_seed():
    ours, theirs = {"p": {0: 0.9, 1: 0.1}, "q": {0: 0.0}}, {"p": {0: 0.8, 1: 0.0}}
    gap = difference(ours, theirs)
    assert (gap.mean, gap.low, gap.high) == pytest.approx((0.1, 0.1, 0.1))
    assert gap.problems == 1


def test_wins_and_losses_are_beyond_one_standard_error_and_some_are_significant():
    records = family(metricopt=(0.2, 0.21, 0.22), rival=(0.1, 0.11, 0.12))
    records += family(Q, metricopt=(0.1, 0.1, 0.1), rival=(0.0, 0.1, 0.25))
    assert str(duel(records, "metricopt", "rival", 150)) == "1 / 1 / 0 (1, 0)"
    assert differences(records, "metricopt", "rival", 150)[P].mean == pytest.approx(0.1)
    assert word(paired({0: 0.3}, {0: 0.2})) == "loss"


def test_gain_lost_by_rejections_is_a_share_of_the_gain_of_all_proposals():
    records = [record(seed=0, gain=0.3), record(seed=1, gain=0.0, proposed=0.1),
               record(seed=2, gain=0.0, proposed=-0.2), record(seed=3, gain=-0.1)]  # fmt: skip
    said = verdicts(records, "metricopt", among=records)
    assert said is not None
    assert (said.runs, said.accepted, said.worse, said.rejected_better) == (4, 2, 1, 1)
    assert said.lost == pytest.approx(0.25)


def test_the_targets_are_met_by_a_method_that_is_ahead_everywhere_and_missed_by_its_mirror():
    def fields(ours, theirs):
        rivals = (("metricopt", ours), ("finetune_bias", theirs), ("finetune_refit_bias", theirs))
        return [record(problem=problem, method=name, seed=seed, gain=gain + 0.001 * seed, queries=queries)
                for problem in (P, Q) for seed in range(3) for queries in (150, 500)
                for name, gain in rivals]  # fmt: skip

    ahead, behind = fields(0.2, 0.1), fields(0.1, 0.2)
    for target in (not_worse, better, highest):
        assert target(ahead, 150).met is True
        assert target(behind, 150).met is False
    assert "finetune_bias by 0.1000" in not_worse(behind, 500).found
    assert [target.met for target in targets(ahead)] == [True] * 9  # three at two budgets, two of acceptance, seconds


def test_significance_is_asked_against_the_better_form_of_finetuning():
    records = family(metricopt=(0.2, 0.2, 0.2), finetune_bias=(0.1, 0.1, 0.1), finetune_refit_bias=(0.3, 0.3, 0.3))
    assert better(records, 150).found == "0 of 1"


def test_hidden_labels_compare_fifty_of_ours_with_five_hundred_of_the_best_rival():
    records = [record(problem=HIDDEN, queries=50, gain=0.2),
               record(problem=HIDDEN, method="snes", queries=500, gain=0.1),
               record(problem=HIDDEN, method="cma_es", queries=500, gain=0.3)]  # fmt: skip
    assert fewer_queries(records).met is False
    assert "of cma_es" in fewer_queries(records).found


def test_the_calls_a_rival_needs_are_its_smallest_budget_that_reaches_ours():
    theirs = ((50, 0.1), (150, 0.15), (500, 0.2))
    rivals = [record(method="rival", queries=queries, gain=gain) for queries, gain in theirs]
    found = normalised([record(queries=50, gain=0.2), *rivals])
    assert queries_needed(found, "rival", [50, 150, 500]) == "500"
    assert queries_needed(found, "rival", [50, 150]) == "more than 150"


def test_what_a_rival_needs_is_told_up_to_its_own_largest_budget():
    rivals = [record(method="rival", queries=queries, gain=0.1) for queries in (50, 150)]
    found = normalised([record(queries=50, gain=0.2), record(queries=500, gain=0.3), *rivals])
    assert queries_needed(found, "rival", [50, 150, 500]) == "more than 150"
    assert queries_needed(found, "unknown", [50, 150, 500]) == "not measured"


def test_seconds_are_compared_by_kind_of_network():
    records = [record(), record(method="finetune_bias", cpu_seconds=2.0), record(problem="cifar_aucpr_logit")]
    assert ratio(records, "metricopt", "finetune_bias", 150) == {"MLP": 2.0}


def test_the_page_has_every_method_problem_and_target_ours_first():
    records = [record(problem=problem, method=name, seed=seed, queries=queries, gain=0.01 * seed + 0.1)
               for problem in (P, Q) for seed in range(2) for queries in (50, 150)
               for name in ("bias", "metricopt", "finetune_bias")]  # fmt: skip
    records.append(record(problem=HIDDEN))
    text = markdown(records, "development")
    assert all(part in text for part in (P, Q, HIDDEN, "finetune_bias", "## Targets", "## What acceptance costs"))
    assert ordered(records)[0] == "metricopt"


def test_seeds_of_a_former_recipe_are_told_apart_from_those_of_the_present_one():
    old = [
        record(seed=0, version=104),
        record("reviews_f1", seed=0, version=104),
        record(method="bias", seed=0, gain=0),
    ]
    new = [record(seed=1, version=200, gain=0.3), record(method="bias", seed=1)]
    groups = by_recipe([*old, *new])
    assert list(groups) == [200, 104] and groups[200] == new and groups[104] == old
    assert widest([*old, *new]) == old  # measured on two problems
    text = markdown([*old, *new], "development")
    assert "Version 200 of ours" in text and "Version 104" not in text
