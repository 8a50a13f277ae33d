"""Table 3: what its cells are, and that its text keeps ours and the published apart."""

import re

import pytest
import torch
from sklearn.metrics import f1_score

from metricopt.metrics import f_beta
from metricopt_lab.cells import ScaledCell, Settings
from metricopt_lab.problems.tabular_scales import SCALES, problem_at
from metricopt_lab.tables.table3.experiment import Table3
from metricopt_lab.tables.table3.methods import METHODS, TARGETS, Bench
from metricopt_lab.tables.table3.text import table3_text


def records(scale: str = "small", sampling: str = "balanced", mcr: tuple[float, ...] = (0.15, 0.17)) -> list[dict]:
    return [
        {"scale": scale, "data": "a9a", "sampling": sampling, "seed": seed, "metric": metric, "method": "metricopt",
         "before": 0.5, "after": after, "gain": 0.01, "accepted": seed == 0, "queries": 150, "budget": 150,
         "seconds": 1.0, "rank_correlation": 0.8, "warnings": []}
        for metric, values in (("mcr", mcr), ("jaccard", (0.5, 0.5)), ("f1", (0.6, 0.7)))
        for seed, after in enumerate(values)
    ]  # fmt: skip


def rows(text: str, origin: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith(f"| {origin}")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.fixture(scope="module")
def bench():
    return Bench(problem_at("smoke", "a9a", f_beta(), sampling="balanced", seed=0), 20)


def test_the_small_scale_has_every_method_for_three_metrics_two_samplings_two_data_sets_and_all_seeds():
    cells = Table3(Settings(seeds=5)).cells()
    assert len({cell.key for cell in cells}) == len(cells) == len(METHODS) * 3 * 2 * 2 * 5


def test_the_paper_s_scale_has_all_rows_and_500_tasks_of_three_queries():
    assert SCALES["paper"].queries == 500 * 3 + 5  # the ends of the paths
    assert {rows.words for rows in SCALES["paper"].rows.values()} == {"all rows"}


def test_jac_is_accuracy_and_read_off_the_error():
    (row,) = rows(table3_text(records()), "ours")
    assert row[2:] == [".1600 ± .0141", ".8400 ± .0141", ".5000 ± .0000", ".6500 ± .0707"]


def test_published_numbers_stand_beside_class_balanced_runs_only():
    assert [row[2] for row in rows(table3_text(records()), "published")] == [".1520", ".1502", ".1369"]
    assert rows(table3_text(records(sampling="plain")), "published") == []


def test_a_smaller_scale_says_that_it_is_not_the_paper_s():
    assert "scale small (not the paper's)" in table3_text(records())
    assert "not the paper's" not in table3_text(records(scale="paper"))


def test_seeds_that_passed_the_acceptance_test_are_counted_by_metric():
    assert re.search(r"\| metricopt +\| \+\.0100 ± \.0000 .* 1/2 1/2 1/2 +\| 150 ", table3_text(records()))


def test_a_flat_value_function_is_said_loudly():
    some = records()
    some[0]["warnings"] = ["the value function is flat: ..."]
    assert "FLAT in 1 of 6 runs" in table3_text(some)


def test_a_record_has_the_test_values_that_scikit_learn_computes(bench):
    cells = [ScaledCell("smoke", "a9a", "balanced", 0, "f1", method) for method in ("ce", "post_shift")]
    start, shifted = (Table3(Settings(scale="smoke")).measure(bench, cell) for cell in cells)
    test = bench.problem.test
    with torch.no_grad():
        expected = f1_score(test.targets, bench.problem.net(test.inputs).reshape(-1) > 0)
    assert start["before"] == start["after"] == shifted["before"] == pytest.approx(expected)
    assert shifted["gain"] == pytest.approx(shifted["after"] - expected)
    assert start["queries"] == 0 < shifted["queries"] <= shifted["budget"] == 20


def test_the_cost_sensitive_network_is_the_best_of_its_targets_on_the_search_data(bench):
    search, metric = bench.problem.search, f_beta()
    chosen = METHODS["cost_sensitive"](bench, metric)
    with torch.no_grad():
        scores = [f1_score(search.targets, net(search.inputs).reshape(-1) > 0) for net in bench.cost_sensitive]
    assert metric.value(chosen.outputs(search.inputs), search.targets) == pytest.approx(max(scores))
    assert chosen.queries == len(scores) == len(TARGETS)


def test_no_method_changes_the_pre_trained_network(bench):
    before = {name: value.clone() for name, value in bench.problem.net.state_dict().items()}
    for name in ("lovasz", "cost_sensitive", "random_search"):
        METHODS[name](bench, f_beta())
    assert all(torch.equal(value, before[name]) for name, value in bench.problem.net.state_dict().items())
