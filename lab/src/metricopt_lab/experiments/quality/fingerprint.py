"""Fingerprint of the code behind a method, so that results of older code are recognised and computed again."""

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path

_PACKAGE = Path(__file__).parents[2]


def code_fingerprint(module: str, *, within: frozenset[str]) -> str:
    """Hash of a module of metricopt and of all it imports, directly or not, from the top-level parts `within`.

    Comments, docstrings and layout do not count.

    Example:
        >>> one = code_fingerprint("metricopt_lab.rivals.cma_es", within=frozenset({"rivals"}))
        >>> one == code_fingerprint("metricopt_lab.rivals.spsa", within=frozenset({"rivals"}))
        False
    """
    found: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = _file(name)
        if name in found or path is None or name.split(".")[1] not in within:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        waiting.extend(_imports(tree))
        found[name] = meaning(tree)
    return hashlib.sha256(repr(sorted(found.items())).encode()).hexdigest()[:16]


def meaning(tree: ast.Module) -> str:
    """The syntax tree as text, without docstrings.

    Example:
        >>> meaning(ast.parse("def f():  # why\\n    'what'\\n    return 1")) == meaning(ast.parse("def f(): return 1"))
        True
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body = node.body[1:]
    return ast.dump(tree)


def _imports(tree: ast.Module) -> Iterator[str]:
    """Modules of metricopt that are imported; of a name that may be a module or not, both readings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("metricopt."):
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("metricopt."))


def _file(module: str) -> Path | None:
    place = _PACKAGE.joinpath(*module.split(".")[1:])
    candidates = (place.with_suffix(".py"), place / "__init__.py")
    return next((path for path in candidates if path.exists()), None)
