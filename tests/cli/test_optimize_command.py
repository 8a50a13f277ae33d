"""`metricopt optimize job.py`: the file's names are the arguments, the exit code says what came of it."""

import json
from pathlib import Path

import pytest

import metricopt as mo
from metricopt.cli.app import main

JOB = """
import torch
from helper import share
x = torch.randn(400, 3, generator=torch.Generator().manual_seed(0))
y = (x[:, 0] > 1).long()
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
metric = {metric}
train, val = (x[:100], y[:100]), (x[100:], y[100:])
learn_from_val, queries = False, 12
import metricopt as mo
recipe = mo.Recipe(start_steps=20, candidates=40)
"""


@pytest.fixture
def job(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "helper.py").write_text("def share(truth, labels):\n    return 0.5")

    def written(metric):
        (tmp_path / "job.py").write_text(JOB.format(metric=metric))
        return "job.py"

    return written


def run(*arguments):
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in arguments])
    return int(left.value.code or 0)


def test_a_better_model_is_code_0_with_report_result_and_numbers(job, capsys):
    name = job('"accuracy"')
    assert run("optimize", name, "--queries", 20, "--report", "--json", "numbers.json") == 0
    assert "accepted" in capsys.readouterr().out and Path("runs/job/report.html").stat().st_size > 10_000
    numbers = json.loads(Path("numbers.json").read_text())
    assert numbers["accepted"] and numbers["queries"] == 20 and numbers["run_dir"] == "runs/job"
    names = {}
    exec(Path(name).read_text().replace("from helper import share", ""), names)
    assert mo.load_result("runs/job", names["net"], "accuracy").comparison.after == numbers["after"]


@pytest.mark.filterwarnings("ignore::metricopt.core.errors.SuspicionWarning")
def test_nothing_better_is_code_3_and_workers_are_as_many_as_asked_for(job, capsys):
    name = job('mo.Metric(share, on="labels", goal="max")')
    Path(name).write_text("import metricopt as mo\n" + Path(name).read_text())
    assert run("optimize", name, "--workers", 2, "--run-dir", "mine", "--json", "-") == 3
    assert not json.loads(capsys.readouterr().out)["accepted"]
    settings = mo.read_events("mine/events.jsonl")[0]["settings"]
    assert settings["workers"] == 2 and settings["queries"] == 12
    assert run("optimize", name, "--workers", 2, "--run-dir", "mine") == 1
    assert "holds a run already" in capsys.readouterr().err
    assert run("optimize", name, "--workers", 2, "--run-dir", "mine", "--resume") == 3


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("net = 1\nval = 2", "job.py names no metric, no train; expected net, metric, train, val"),
        ("net = 1\nnot_there", "job.py, line 2, raised NameError: name 'not_there' is not defined"),
        ("net = (", "job.py raised SyntaxError"),
        ("net = metric = train = val = 1", "metric"),
    ],
)
def test_a_file_that_is_no_job_is_code_1_and_a_sentence(content, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("job.py").write_text(content)
    assert run("optimize", "job.py") == 1
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error and not Path("runs").exists()
