"""The detector of Table 6, its training and the folds of its images."""

import pytest
import torch
from safetensors.torch import load_file

from metricopt.core.errors import DataError
from metricopt.data.boxes import BoxImages
from metricopt_lab.cells import Settings, experiments
from metricopt_lab.networks.detector import bccd_faster_rcnn
from metricopt_lab.problems.detection import _split, trained_detector
from metricopt_lab.problems.microscope_shifts import SHIFTS
from metricopt_lab.problems.train_detector import train_detector
from metricopt_lab.tables.table6.methods import MAIN, METHODS


@pytest.fixture
def torchvision():
    try:
        import torchvision.ops as found
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"torchvision cannot be imported: {error}")
    return found


def test_five_seeds_report_on_each_image_once_and_search_none_of_them():
    parts = [_split(159, seed) for seed in range(5)]
    assert torch.cat([test for _, _, test in parts]).sort().values.tolist() == list(range(159))
    for search, accept, test in parts:
        assert torch.cat([search, accept, test]).sort().values.tolist() == list(range(159))
        assert len(search) > len(accept) > len(test)


def test_without_weights_one_sentence_says_how_to_make_them(torchvision, monkeypatch, tmp_path):
    monkeypatch.setenv("METRICOPT_DETECTOR", str(tmp_path / "none.safetensors"))
    with pytest.raises(DataError, match="metricopt pretrain bccd_faster_rcnn"):
        trained_detector()


def test_a_short_training_writes_weights_that_the_detector_loads(torchvision, tmp_path, monkeypatch):
    target = {"boxes": torch.tensor([[40.0, 40, 80, 80]]), "labels": torch.tensor([1])}
    images = BoxImages([torch.zeros(3, 240, 320).byte()] * 2, [target] * 2, ("background", "RBC"), ("a", "b"))
    path = tmp_path / "detector.safetensors"
    facts = train_detector(images, path, imagenet=None, epochs=1)
    assert facts["images"] == 2 and len(facts["losses"]) == 1
    monkeypatch.setenv("METRICOPT_DETECTOR", str(path))
    net = trained_detector()
    assert not net.training and net.state_dict().keys() == load_file(path).keys()
    # Frozen from the start: the stem and the first blocks.
    with torch.random.fork_rng(devices=[]):
        fresh = bccd_faster_rcnn()
    assert {n for n, p in fresh.named_parameters() if not p.requires_grad} >= {"backbone.body.stem.weight"}


def test_it_has_as_many_parameters_as_the_trained_one(torchvision):
    with torch.random.fork_rng(devices=[]):
        assert sum(p.numel() for p in bccd_faster_rcnn().parameters()) == 3_993_186


def test_at_scale_small_rows_beside_the_claims_are_run_under_two_conditions():
    cells = experiments()["table6"](Settings(seeds=5, scale="small")).cells()
    methods = {condition: [c.method for c in cells if c.data == condition and c.seed == 4] for condition in SHIFTS}
    assert methods["as_trained"] == methods["pixel_noise"] == list(METHODS)
    assert methods["blur"] == methods["other_stain"] == methods["half_brightness"] == list(MAIN)
