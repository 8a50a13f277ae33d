"""The table of what was wrong in 0.1.0 names tests that there are."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_test_that_the_table_names_is_there():
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", Path(__file__).with_name("README.md").read_text())
    assert len(named) > 50
    for path in sorted({path for path, _ in named}):
        functions = {
            node.name for node in ast.parse((ROOT / path).read_text()).body if isinstance(node, ast.FunctionDef)
        }
        assert {name for where, name in named if where == path} <= functions, path
