"""Architecture: a module never imports a module of a higher layer, nor one of its own layer's other packages."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "metricopt"

# From low to high. A new module or package needs a place here; a place may wait for its package.
LAYERS = (
    ("errors",),
    ("seeding", "registry", "records", "events"),
    ("journal", "files", "report"),
    ("ledger",),
    ("gaussian_process",),
    ("examples",),
    ("metrics", "losses", "adapters", "models", "data"),
    ("progress", "constraint", "border"),
    ("asking", "live"),
    ("prefix_cache",),
    ("views",),
    ("task", "scalars", "fisher"),
    ("loss_groups",),
    ("supervised",),
    ("trajectory", "value", "optim"),
    ("acceptance", "three_sets", "changes", "loss_line"),
    ("judging",),
    ("search",),
    ("finetune",),
    ("result", "preflight"),
    ("optimize",),
    ("tasks",),
    ("baselines",),
    ("experiments",),
    ("estimator",),
    ("cli",),
    ("__init__", "__main__"),
)
LAYER = {name: layer for layer, names in enumerate(LAYERS) for name in names}
# Lower, and still not to be known: a value function is a function of phi, an optimizer takes any such function.
FORBIDDEN = {
    *((unit, task) for unit in ("value", "optim") for task in ("task", "supervised", "loss_groups")),
    ("optim", "value"),
}

FILES = sorted(SOURCE.rglob("*.py"))


def unit_of(path: Path) -> str:
    """The row of the table a file belongs to: its top-level package, or itself."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_units(source: str) -> set[str]:
    """Top-level parts of metricopt that a source file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {_unit(alias.name) for alias in node.names if alias.name.split(".")[0] == "metricopt"}
        elif isinstance(node, ast.ImportFrom) and node.level:
            found.add("a relative import")
        elif isinstance(node, ast.ImportFrom) and node.module == "metricopt":
            names = {alias.name for alias in node.names} - {"__version__"}
            found |= {name if name in LAYER else "__init__" for name in names}
        elif isinstance(node, ast.ImportFrom) and str(node.module).startswith("metricopt."):
            found.add(_unit(str(node.module)))
    return found


def _unit(dotted: str) -> str:
    return [*dotted.split("."), "__init__"][1]


def violations(unit: str, source: str) -> set[str]:
    """What a file of `unit` imports and must not."""
    others = imported_units(source) - {unit}
    return {
        other
        for other in others
        if other not in LAYER or LAYER[other] >= LAYER.get(unit, 0) or (unit, other) in FORBIDDEN
    }


def test_every_module_has_a_place_in_the_table():
    assert {unit_of(path) for path in FILES} <= set(LAYER)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_imports_only_what_is_below_it(path):
    assert violations(unit_of(path), path.read_text(encoding="utf-8")) == set()


@pytest.mark.parametrize(
    ("unit", "source", "wrong"),
    [
        ("value", "from metricopt.task import Task", {"task"}),
        ("optim", "def late():\n    from metricopt.value.network import ValueNetwork", {"value"}),
        ("metrics", "import metricopt.losses.named", {"losses"}),
        ("ledger", "from metricopt import cli, task", {"cli", "task"}),
        ("task", "from metricopt import MetricGuided", {"__init__"}),
        ("task", "import metricopt", {"__init__"}),
        ("task", "from . import errors", {"a relative import"}),
        ("task", "from metricopt.helpers import thing", {"helpers"}),
        ("task", "import torch\nfrom metricopt.metrics import Metric\nfrom metricopt import __version__", set()),
        ("metrics", "from metricopt.metrics.counts import ratio", set()),
        ("cli", "from metricopt import finetune", set()),
        ("helpers", "from metricopt.metrics import Metric", {"metrics"}),
    ],
)
def test_the_rule_itself_sees_imports_of_every_form(unit, source, wrong):
    assert violations(unit, source) == wrong
