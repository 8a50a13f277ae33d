"""A component is one new file with one decorator: nothing else has to know of it."""

import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "metricopt"
NEW = {
    "metrics": "from metricopt.metrics.named import METRICS, population_metric\n\n\n"
    "@METRICS.add('zz_new')\ndef zz_new():\n"
    "    return population_metric(lambda t, p: (t == p).double().mean(1), name='zz_new', on='labels', goal='max')\n",
    "losses": "from metricopt.losses.named import LOSSES\n\nLOSSES.add('zz_new')(lambda out, y: out.sum())\n",
}


@pytest.mark.parametrize("package", NEW)
def test_a_file_laid_into_its_package_is_found(package, tmp_path):
    copy = tmp_path / "metricopt"
    copy.mkdir()
    for path in SOURCE.iterdir():
        if path.name != package:
            (copy / path.name).symlink_to(path)
    (copy / package).mkdir()
    for path in (SOURCE / package).iterdir():
        (copy / package / path.name).symlink_to(path)
    (copy / package / "zz_new.py").write_text(NEW[package])
    registry = package.upper()
    code = f"from metricopt.{package} import {registry}; print('zz_new' in {registry})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(tmp_path)}
    )
    assert done.stdout.strip() == "True"
