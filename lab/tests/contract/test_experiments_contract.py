"""Every registered experiment: cells with names of their own, records that JSON can hold, a text, and resuming."""

import json
import os
from pathlib import Path

import pytest

from metricopt.core.plain import as_json
from metricopt_lab.experiments import EXPERIMENTS, Settings, run

SMOKE = Settings(seeds=1, scale="smoke")


@pytest.fixture(scope="module", params=list(EXPERIMENTS))
def done(request, tmp_path_factory):
    folder = Path(os.environ.get("METRICOPT_DATA", "nowhere"))
    if EXPERIMENTS[request.param].needs_cifar10 and not any(folder.glob("**/cifar10.npz")):
        pytest.skip("CIFAR-10 (180 MB) is in the folder METRICOPT_DATA only")
    out = tmp_path_factory.mktemp(request.param)
    return request.param, out, run(request.param, SMOKE, out)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_it_has_a_description_and_the_three_scales(name):
    assert len(EXPERIMENTS[name]().about) > 20
    assert EXPERIMENTS[name].scales == ("smoke", "small", "paper")


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("scale", ["smoke", "small", "paper"])
def test_every_cell_has_a_name_of_its_own_and_more_seeds_only_add_cells(name, scale):
    few, more = (EXPERIMENTS[name]().cells(Settings(seeds=seeds, scale=scale)) for seeds in (1, 2))
    assert len({cell.key for cell in more}) == len(more) == 2 * len(few)
    assert set(few) < set(more)


def test_every_cell_of_the_smoke_scale_gives_a_record_with_its_provenance(done):
    name, _, result = done
    cells = EXPERIMENTS[name]().cells(SMOKE)
    assert [(r["data"], r["seed"], r["metric"], r["method"]) for r in result.records] == [
        (cell.data, cell.seed, cell.metric, cell.method) for cell in cells
    ]
    assert all({"queries", "seconds", "fingerprint", "versions", "problem"} <= set(r) for r in result.records)
    assert json.loads(as_json(result.records)) == result.records


def test_the_text_is_written_and_names_the_scale(done):
    _, out, result = done
    assert (out / "table.md").read_text() == result.text
    assert "scale smoke" in result.text


def test_running_it_again_measures_nothing(done):
    name, out, result = done
    again = run(name, SMOKE, out)
    assert (again.measured, again.text) == (0, result.text)
