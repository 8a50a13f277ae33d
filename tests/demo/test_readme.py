"""What README says of the demo is what the records of five seeds say."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECORDS = [json.loads(line) for line in (ROOT / "results" / "demo.jsonl").read_text().splitlines()]
README = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())


def short(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")


def test_there_are_five_seeds_and_under_the_shift_the_difference_excludes_zero_in_each():
    assert [record["seed"] for record in RECORDS] == [0, 1, 2, 3, 4]
    lows = [record["metricopt_over_threshold_tuning"]["interval"][0] for record in RECORDS]
    assert min(lows) > 0
    assert "excludes zero five times" in README


def test_the_ties_of_the_second_act_are_counted_and_the_others_told():
    ends = [record["second_act"]["metricopt_over_threshold_tuning"]["interval"] for record in RECORDS]
    assert sum(low <= 0 <= high for low, high in ends) == 3
    assert not any(high < 0 for _, high in ends)
    for low, high in (each for each in ends if each[0] > 0):
        assert f"by {short(low)} to {short(high)}" in README


@pytest.mark.parametrize("act", ["first", "second"])
def test_the_values_of_the_first_seed_are_quoted(act):
    found = RECORDS[0] if act == "first" else RECORDS[0]["second_act"]
    for value in (found["before"], found["threshold_tuning"]["after"], found["after"]):
        assert short(value) in README
    if act == "first":
        low, high = found["metricopt_over_threshold_tuning"]["interval"]
        assert f"{short(low)} to {short(high)} more" in README
        assert f"{found['calls']:,}" in README
        assert f"{found['rows']['test']:,} test rows" in README
