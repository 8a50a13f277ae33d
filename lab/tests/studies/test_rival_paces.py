"""The study of rivals' paces: splits that nothing reports, a pace that is really kept, and tables that use the best."""

from collections import defaultdict
from pathlib import Path

import pytest

from metricopt_lab.cells import Settings, experiments
from metricopt_lab.cells.store import Store
from metricopt_lab.rivals.published import paces
from metricopt_lab.rivals.published.paces import TUNED, USUAL, paces_of
from metricopt_lab.studies.paper_rates import UNREPORTED
from metricopt_lab.studies.rival_paces import RivalPaces, best_paces, paces_text
from metricopt_lab.tables.table2 import Table2

RESULTS = Path(__file__).parents[3] / "results" / "rival-paces.jsonl"


def row(name, steps, lr, gain, **more):
    return {"scale": "small", "data": "a9a", "seed": 0, "metric": "f1", "row": name, "steps": steps, "lr": lr,
            "gain": gain, **more}  # fmt: skip


def test_paces_are_compared_on_splits_that_no_table_has():
    cells = RivalPaces(Settings(seeds=2, scale="smoke")).cells()
    splits = {RivalPaces(Settings(scale="smoke")).ground(cell).problem.seed for cell in cells}
    assert splits == {UNREPORTED, UNREPORTED + 1}
    tables = [experiments()[name](Settings(seeds=5)) for name in ("table1", "table2", "table3")]
    assert not splits & {cell.seed for table in tables for cell in table.cells()}


def test_every_row_of_a_published_rival_is_tried_at_the_same_number_of_paces_below_and_above_its_own():
    cells = RivalPaces(Settings(seeds=1, scale="small", data=("small_convnet",))).cells()
    tried = defaultdict(set)
    for cell in cells:
        name, _, pace = cell.method.partition("@")
        tried[name].add(pace)
    rivals = {name + more for name in ("moew", "ala", "rambo") for more in ("", "_weights")}
    losses = {name + more for name in ("aucpr", "pairwise_aucroc") for more in ("", "_weights")}
    assert set(tried) == rivals | losses
    assert {len(some) for some in tried.values()} <= {8, 10}
    for name, some in tried.items():
        own = USUAL[name.removesuffix("_weights")]
        assert {f"{own.steps}x{own.lr:g}", f"{4 * own.steps}x{own.lr:g}", f"{own.steps}x{own.lr / 5:g}"} < some


def test_the_highest_mean_over_splits_and_metrics_is_the_best_and_is_marked():
    records = [row("sl", 20, 0.01, gain) for gain in (0.02, 0.0)] + [row("sl", 20, 0.05, 0.015)]
    assert best_paces(records) == {"sl": (20, 0.05)}
    assert paces_text(records).splitlines()[6].endswith(".01: +.0100 ± .0141, **.05: +.0150** |")


def test_a_record_made_at_another_pace_is_not_of_the_present(monkeypatch):
    cell = next(cell for cell in Table2(Settings(seeds=1)).cells() if cell.method == "moew_weights")
    monkeypatch.setattr(paces, "TUNED", {})
    own = Table2(Settings()).made_by(cell)
    monkeypatch.setattr(paces, "TUNED", {"small_convnet": {"moew_weights": (200, 0.5)}})
    assert Table2(Settings()).made_by(cell) == {**own, "pace": "200 steps of 0.5"}
    assert paces_of("small_convnet")["moew_weights"] == paces.Pace(200, 0.5)


@pytest.mark.skipif(not RESULTS.exists(), reason="the records of the study are not here")
def test_the_tables_use_what_the_study_found():
    records = Store(RESULTS).values()
    for data in {record["data"] for record in records}:
        some = [record for record in records if record["data"] == data and record["scale"] == "small"]
        for name, (steps, lr) in best_paces(some).items():
            own = USUAL[name.removesuffix("_weights")]
            assert TUNED.get(data, {}).get(name, (own.steps, own.lr)) == (steps, pytest.approx(lr)), (data, name)
