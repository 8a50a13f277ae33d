"""Wheel and sdist: what is built installs elsewhere, is typed, and brings its command and its data."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A wheel that was made from the sdist, and that one, without the network."""
    for package in ("build", "hatchling"):
        pytest.importorskip(package)
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return out


def test_the_wheel_is_typed_and_has_the_data_of_the_demo(built):
    (wheel,) = built.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert "metricopt/py.typed" in names and any(name.endswith(".npz") for name in names)
    assert not any(name.startswith(("tests", "metricopt_lab")) for name in names)


def test_the_sdist_has_what_a_wheel_is_made_of(built):
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "CITATION.cff", "src/metricopt/py.typed"} <= names


def test_the_wheel_works_where_the_repository_is_not(built, tmp_path):
    (wheel,) = built.glob("*.whl")
    place = tmp_path / "place"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(place)]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True)
    code = "import metricopt; print(metricopt.__file__); from metricopt.demo.data import shipped; shipped('forests')"
    # Without site's own .pth files, which name the repository where it was installed to be edited.
    paths = [str(place), *(path for path in sys.path if path.endswith("site-packages"))]
    start = f"import sys; sys.path[:0] = {paths!r}; {code}"
    done = subprocess.run(
        [sys.executable, "-S", "-c", start], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.stdout.strip().startswith(str(place)), done.stderr
