"""Every registered experiment: cells with names of their own, records that JSON can hold, a text, and resuming."""

import json
import os
import pickle
from pathlib import Path

import pytest

from metricopt.core.errors import DataError, UnknownNameError
from metricopt.core.plain import as_json
from metricopt_lab.cells import Settings, Store, experiments, run
from metricopt_lab.data.tiny_imagenet import has_tiny_imagenet

EXPERIMENTS = experiments()
SMOKE = Settings(seeds=1, scale="smoke")


def needs_detector():
    """Skip where torchvision, the images or the trained weights are not to be had."""
    from metricopt_lab.data.bccd import has_bccd
    from metricopt_lab.problems.detection import trained_detector

    try:
        trained_detector()
    except (DataError, RuntimeError) as error:
        pytest.skip(str(error))
    if not has_bccd():
        pytest.skip("BCCD is in the folder METRICOPT_DATA only")


@pytest.fixture(scope="module", params=list(EXPERIMENTS))
def done(request, tmp_path_factory):
    folder = Path(os.environ.get("METRICOPT_DATA", "nowhere"))
    if EXPERIMENTS[request.param].needs_cifar10 and not any(folder.glob("**/cifar10.npz")):
        pytest.skip("CIFAR-10 (180 MB) is in the folder METRICOPT_DATA only")
    if request.param in ("table6", "figureS3"):
        needs_detector()
    if request.param in ("table4", "tableS1") and not has_tiny_imagenet():
        pytest.skip("Tiny ImageNet is in the folder METRICOPT_DATA only")
    out = tmp_path_factory.mktemp(request.param)
    return EXPERIMENTS[request.param](SMOKE), out, run(EXPERIMENTS[request.param](SMOKE), out)


def test_the_paper_s_tables_and_figures_and_our_studies_are_found_without_being_listed():
    tables = {"table1", "table2", "table3", "table4", "table5", "table6", "tableS1"}
    figures = {"figure3", "figure4", "figureS2", "figureS3", "figureS4"}
    searches = {"ablation", "weights-ablation", "value-health", "transfer", "shelf"}
    studies = {"paper-recipe", "paper-rates", "rival-paces", "learned-attempts", *searches}
    assert set(EXPERIMENTS) == tables | figures | studies


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_it_has_a_description_the_three_scales_and_its_own_name(name):
    experiment = EXPERIMENTS[name](SMOKE)
    assert len(experiment.about) > 20
    assert experiment.scales == ("smoke", "small", "paper")
    assert experiment.name == name


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("scale", ["smoke", "small", "paper"])
def test_every_cell_has_a_name_of_its_own_and_more_seeds_only_add_cells(name, scale):
    few, more = (EXPERIMENTS[name](Settings(seeds=seeds, scale=scale)).cells() for seeds in (1, 2))
    assert len({cell.key for cell in more}) == len(more) == 2 * len(few)
    assert set(few) < set(more)


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize(("scale", "data"), [("smoke", ("nonsense",)), ("small", ("nonsense",)), ("huge", ())])
def test_data_and_scales_that_it_does_not_have_are_refused_in_one_sentence(name, scale, data):
    with pytest.raises(UnknownNameError, match=r"nonsense|huge") as refused:
        EXPERIMENTS[name](Settings(scale=scale, data=data))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_all_data_that_it_knows_can_be_chosen_and_are_then_all_there_is(name):
    known = EXPERIMENTS[name](Settings(seeds=1)).known_data()
    for data in known:
        assert {cell.data for cell in EXPERIMENTS[name](Settings(seeds=1, data=(data,))).cells()} == {data}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_it_travels_to_another_process(name):
    experiment = EXPERIMENTS[name](SMOKE)
    assert pickle.loads(pickle.dumps(experiment)) == experiment


def test_every_cell_of_the_smoke_scale_gives_a_record_with_its_provenance(done):
    experiment, _, result = done
    assert result.failures == ()
    assert [(r["key"], r["data"], r["seed"], r["metric"], r["method"]) for r in result.records] == [
        (cell.key, cell.data, cell.seed, cell.metric, cell.method) for cell in experiment.cells()
    ]
    assert all(r["version"] == experiment.version_of(r["method"]) for r in result.records)
    assert all({"queries", "seconds", "fingerprint", "versions", "problem"} <= set(r) for r in result.records)
    assert json.loads(as_json(result.records)) == result.records


def test_records_and_text_are_written_and_the_text_names_the_scale(done):
    experiment, out, result = done
    assert len(Store(out / f"{experiment.name}.jsonl")) == len(result.records)
    assert (out / f"{experiment.name}.md").read_text() == result.text
    assert "scale smoke" in result.text


def test_running_it_again_measures_nothing(done):
    experiment, out, result = done
    again = run(experiment, out)
    assert (again.measured, again.text) == (0, result.text)
