"""The library alone: none of the laboratory's packages is needed to import it, to optimize, or for the command."""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
# What only tests, extras and the laboratory have, hidden as if it were not installed.
HIDDEN = (
    *("metricopt_lab", "sklearn", "matplotlib", "PIL", "cma", "torchmetrics", "tensorboard", "pytest"),
    *("transformers", "accelerate", "peft", "lightning", "skorch", "pandas"),
)
# Names that stand on a class of another library; without it they say which extra brings it.
EXTRA = {
    "MetricOptCallback": "lightning",
    "MetricOptClassifier": "sklearn",
    "MetricOptRegressor": "sklearn",
    "MetricOptTrainerCallback": "huggingface",
}

CODE = f"""
import sys
from importlib.machinery import PathFinder

class Lean:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return None if name.split(".")[0] in {HIDDEN!r} else PathFinder.find_spec(name, path, target)

sys.meta_path = [finder for finder in sys.meta_path if finder is not PathFinder] + [Lean]
import torch
import metricopt as mo

extra = {EXTRA!r}
for name in mo.__all__:
    try:
        getattr(mo, name)
    except ImportError as error:
        assert f'pip install "metricopt-torch[{{extra[name]}}]"' in str(error), error
x = torch.randn(300, 3, generator=torch.Generator().manual_seed(0))
y = (x[:, 0] > 0.5).long()
net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
result = mo.optimize(net, metric="f1", train=(x[:100], y[:100]), val=(x[100:], y[100:]), queries=10)
result.report("report.html")
print(result.ledger.used)
"""


def test_importing_and_optimizing_need_only_the_packages_that_are_declared(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CODE], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.stdout.strip() == "10", done.stderr


def test_few_packages_are_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {dependency.partition(">")[0] for dependency in project["dependencies"]}
    assert names == {"torch", "numpy", "scipy", "safetensors", "typer", "rich"}


def test_what_the_wheel_ships_is_below_one_and_a_half_megabytes():
    files = [path for path in (ROOT / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    packed = sum(path.stat().st_size for path in files if path.suffix in (".npz", ".gz", ".png"))
    text = sum(path.stat().st_size for path in files if path.suffix not in (".npz", ".gz", ".png"))
    assert packed + text / 2.5 < 1.5e6  # text packs to less than that in a wheel, which is a zip file
