"""The problem of Table 6 as in the paper: a Faster R-CNN on ResNet-50, on VOC 07 and on VOC 07 + 12; it needs a GPU."""

from functools import partial
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from metricopt.adapters import Adapter, adapt
from metricopt.adapters.detector import detect
from metricopt.adapters.graph.cache import PrefixCache
from metricopt.api.detectors import detector_adapter
from metricopt.core.errors import DataError
from metricopt.core.seeding import stream
from metricopt.data.boxes import BoxImages
from metricopt.data.dataset import Examples
from metricopt.metrics import ap50
from metricopt_lab.data.voc import joined, voc
from metricopt_lab.networks.detector import voc_faster_rcnn
from metricopt_lab.problems.detection import Detection, weights_at

YEARS = {"voc07": (2007,), "voc07_12": (2007, 2012)}
"""The paper's two columns: the years whose train split the detector has learnt from."""

SEARCHED = 0.6
"""Of VOC 07's val split, which it has not learnt from; the rest decides."""


def voc_detection(condition: str, seed: int, *, adapter: Adapter | None = None) -> Detection:
    """The problem with the train split of some years, VOC 07's val to search and to decide, its test to report on."""
    _check_gpu()
    learnt, val, test = joined([voc(year, "train") for year in YEARS[condition]]), voc(2007, "val"), voc(2007, "test")
    net = voc_faster_rcnn()
    net.load_state_dict(load_file(weights_at(_file(condition), condition)))
    order = torch.randperm(len(val), generator=stream(seed, "search images"))
    cut = round(SEARCHED * len(val))
    train = _part(learnt, torch.randperm(len(learnt), generator=stream(seed, "train images"))[:500])
    model = adapt(
        net.cuda().eval(), adapter or detector_adapter(), seed=seed, example=train.inputs_at(slice(0, 1)), call=detect
    )
    return Detection(
        model,
        ap50(rule="voc07"),
        train,
        _part(val, order[:cut]),
        _part(val, order[cut:]),
        test.examples(),
        test,
        PrefixCache(model, probe=train.inputs_at(slice(0, 1))),
        seed,
    )


def voc_settings(condition: str) -> tuple[str, BoxImages, dict[str, Any]]:
    """How its detector is trained: the file of its weights, its images, and network and device."""
    _check_gpu()
    images = joined([voc(year, "train") for year in YEARS[condition]])
    return _file(condition), images, {"build": partial(voc_faster_rcnn, imagenet=True), "device": "cuda"}


def _file(condition: str) -> str:
    return f"{condition}_fasterrcnn_resnet50.safetensors"


def _check_gpu() -> None:
    if not torch.cuda.is_available():
        raise DataError(
            "scale paper of Table 6 is VOC with a ResNet-50, which needs a GPU, and torch sees none; expected one: "
            "use --scale small, blood cells on a small network"
        )


def _part(images: BoxImages, index: Tensor) -> Examples:
    return images.rows(index.tolist()).examples()
