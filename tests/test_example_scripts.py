"""The examples run, and do what they say."""

import re
import runpy
import warnings
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"


def test_every_example_is_run_here():
    assert {path.name for path in FOLDER.glob("*.py")} == {
        "any_metric.py",
        "detection.py",
        "images.py",
        "step_by_step.py",
    }


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


def test_a_detector_gains_in_ap50_where_the_light_is_dimmed(capsys):
    try:
        import torchvision.ops  # noqa: F401
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"torchvision cannot be imported: {error}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = runpy.run_path(str(FOLDER / "detection.py"))["main"]()
    assert result.accepted and result.ledger.used <= 20
    before, after = re.findall(r"on 30 test images: ([\d.]+) -> ([\d.]+)", capsys.readouterr().out)[0]
    assert float(after) > float(before)
