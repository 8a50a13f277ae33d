"""The examples run, and do what they say."""

import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"


def test_every_example_is_run_here():
    assert {path.name for path in FOLDER.glob("*.py")} == {"any_metric.py", "step_by_step.py"}


def test_any_metric_is_improved_on_held_out_data(capsys):
    result = runpy.run_path(str(FOLDER / "any_metric.py"))["main"]()
    assert result.accepted
    assert result.ledger.used == 150
    assert "193 parameters, as before" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore::metricopt.errors.FlatValueWarning")
def test_step_by_step_both_ways_of_finetuning_improve_f1():
    values = runpy.run_path(str(FOLDER / "step_by_step.py"))["main"]()
    assert values["finetune"] > values["original"]
    assert values["own loop"] > values["original"]
