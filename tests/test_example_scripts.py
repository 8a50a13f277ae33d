"""The examples run, and do what they say."""

import json
import re
import runpy
from pathlib import Path

import pytest

from metricopt.cli.app import main as command

FOLDER = Path(__file__).parents[1] / "examples"


def test_every_example_is_run_here():
    assert {path.name for path in FOLDER.glob("*.py")} == {"any_metric.py", "images.py", "job.py", "step_by_step.py"}


def test_any_metric_is_improved_on_held_out_data(capsys):
    result = runpy.run_path(str(FOLDER / "any_metric.py"))["main"]()
    assert result.accepted
    assert result.ledger.used <= 150
    assert "193 parameters, as before" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore::metricopt.core.errors.FlatValueWarning")
def test_step_by_step_both_ways_of_finetuning_improve_f1():
    values = runpy.run_path(str(FOLDER / "step_by_step.py"))["main"]()
    assert values["finetune"] > values["original"]
    assert values["own loop"] > values["original"]


def test_a_convnet_and_a_metric_in_plain_python_improve_the_worst_class(capsys):
    result = runpy.run_path(str(FOLDER / "images.py"))["main"]()
    assert result.accepted and result.ledger.used <= 100
    before, after = re.findall(r"on 497 test images: ([\d.]+) -> ([\d.]+)", capsys.readouterr().out)[0]
    assert float(after) < float(before) - 0.3


def test_the_job_is_one_that_the_command_takes_and_improves(tmp_path, capsys):
    with pytest.raises(SystemExit) as left:
        command(
            ["optimize", str(FOLDER / "job.py"), "--queries", "40", "--run-dir", str(tmp_path / "run"), "--json", "-"]
        )
    assert left.value.code in (None, 0) and json.loads(capsys.readouterr().out)["accepted"]
