"""Architecture: a package never imports one of a higher row, nor a neighbour; the library never the laboratory."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "metricopt"

# From low to high. A new package needs a place here, a line in CONTRIBUTING and one in docs/architecture.md.
LAYERS = (
    ("core",),
    ("run", "data", "gaussian_process"),
    ("metrics", "losses", "adapters"),
    ("task",),
    ("paper", "acceptance"),
    ("search", "crossfit"),
    ("api",),
    ("integrations", "report"),
    ("demo",),
    ("cli",),
    ("__init__", "__main__"),
)
LAYER = {name: layer for layer, names in enumerate(LAYERS) for name in names}
# Lower, and still not to be known: the default search is not made of the paper's parts.
FORBIDDEN = {("search", "paper"), ("search", "acceptance")}
# A result draws and writes itself, and is imported by report and integrations for nothing: late imports upwards.
ALLOWED_LATE = {("api", "report"), ("api", "integrations")}

FILES = sorted(SOURCE.rglob("*.py"))


def unit_of(path: Path) -> str:
    """The row of the table a file belongs to: its top-level package, or itself."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_units(source: str) -> set[str]:
    """Top-level parts of metricopt that a source file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            found |= {_unit(name) for name in names if name.split(".")[0] in ("metricopt", "metricopt_lab")}
        elif isinstance(node, ast.ImportFrom) and node.level:
            found.add("a relative import")
        elif isinstance(node, ast.ImportFrom) and node.module == "metricopt":
            names = {alias.name for alias in node.names} - {"__version__"}
            found |= {name if name in LAYER else "__init__" for name in names}
        elif isinstance(node, ast.ImportFrom) and str(node.module).startswith(("metricopt.", "metricopt_lab")):
            found.add(_unit(str(node.module)))
    return found


def _unit(dotted: str) -> str:
    return "the laboratory" if dotted.startswith("metricopt_lab") else [*dotted.split("."), "__init__"][1]


def violations(unit: str, source: str) -> set[str]:
    """What a file of `unit` imports and must not."""
    others = imported_units(source) - {unit} - {upper for lower, upper in ALLOWED_LATE if lower == unit}
    return {
        other
        for other in others
        if other not in LAYER or LAYER[other] >= LAYER.get(unit, 0) or (unit, other) in FORBIDDEN
    }


def test_every_package_has_a_place_in_the_table():
    assert {unit_of(path) for path in FILES} <= set(LAYER)


def test_the_root_has_at_most_six_modules():
    assert len(list(SOURCE.glob("*.py"))) <= 6


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_imports_only_what_is_below_it(path):
    assert violations(unit_of(path), path.read_text(encoding="utf-8")) == set()


@pytest.mark.parametrize(
    ("unit", "source", "wrong"),
    [
        ("metrics", "from metricopt.task.base import Task", {"task"}),
        ("metrics", "def late():\n    from metricopt.losses.named import LOSSES", {"losses"}),
        ("run", "from metricopt import cli, task", {"cli", "task"}),
        ("task", "from metricopt import MetricGuided", {"__init__"}),
        ("task", "import metricopt", {"__init__"}),
        ("task", "from . import base", {"a relative import"}),
        ("task", "from metricopt.helpers import thing", {"helpers"}),
        ("api", "from metricopt_lab.rivals import BASELINES", {"the laboratory"}),
        ("cli", "import metricopt_lab.cli", {"the laboratory"}),
        ("task", "import torch\nfrom metricopt.metrics import Metric\nfrom metricopt import __version__", set()),
        ("metrics", "from metricopt.metrics.counts import ratio", set()),
        ("helpers", "from metricopt.metrics import Metric", {"metrics"}),
    ],
)
def test_the_rule_itself_sees_imports_of_every_form(unit, source, wrong):
    assert violations(unit, source) == wrong


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_every_package_is_named_where_a_newcomer_looks(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    packages = {unit_of(path) for path in FILES if path.parent != SOURCE}
    assert {name for name in packages if f"`{name}/`" not in text} == set()
