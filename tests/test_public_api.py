"""The public names: all there, cheap to import, and themselves whatever else is imported."""

import subprocess
import sys
from types import ModuleType

import pytest

import metricopt as mo


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_importing_it_after_torch_loads_nothing_heavy():  # how long it takes, `metricopt bench speed` measures
    code = "import sys, torch; before = set(sys.modules); import metricopt;print(*sorted(set(sys.modules) - before))"
    modules = python(code).split()
    assert "metricopt" in modules
    assert not {"sklearn", "scipy", "matplotlib", "rich", "typer"} & {name.split(".")[0] for name in modules}


def test_importing_it_alone_does_not_load_torch():
    assert python("import sys, metricopt; print('torch' in sys.modules)") == "False"


@pytest.mark.parametrize("name", mo.__all__)
def test_every_public_name_is_there_with_a_docstring(name):
    assert getattr(mo, name).__doc__


def test_the_public_names_are_what_dir_shows():
    assert set(dir(mo)) == {*mo.__all__, "__version__"}


def test_every_public_class_and_function_is_the_one_of_its_module():
    own = [getattr(mo, name) for name in mo.__all__ if not name.startswith("PAPER")]
    assert all(thing is getattr(sys.modules[thing.__module__], thing.__name__) for thing in own if callable(thing))


def test_submodules_are_modules():
    assert all(isinstance(getattr(mo, name), ModuleType) for name in ("adapters", "data", "losses", "metrics"))


def test_a_misspelt_name_is_answered_with_the_right_one(capsys):
    with pytest.raises(AttributeError) as caught:
        mo.optimise
    sys.__excepthook__(AttributeError, caught.value, None)
    assert "metricopt has no attribute 'optimise'. Did you mean: 'optimize'?" in capsys.readouterr().err
