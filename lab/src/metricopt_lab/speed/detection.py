"""A query of a detector where phi acts on its pyramid or in its box head, against a full pass."""

from functools import partial

import torch
from torch import Tensor

from metricopt.adapters import AdaptedModel, adapt
from metricopt.adapters.detector import POOLED, PYRAMID, detect
from metricopt.adapters.graph.cache import PrefixCache
from metricopt.api.detectors import detector_adapter
from metricopt.core.errors import DataError
from metricopt.core.seeding import derived_seed, stream
from metricopt.data.dataset import Examples
from metricopt_lab.networks.detector import SIZE, bccd_faster_rcnn
from metricopt_lab.speed.figures import FIGURES, Effort, Figure, Label, ratio

PLACES = {"the pyramid's outputs": (PYRAMID, 0.35), "features pooled for the box head": (POOLED, 0.1)}
"""Where FiLM acts, and what share of a full pass a query may take."""


@FIGURES.add("p")
def of_detectors(effort: Effort) -> list[Figure]:
    """A query over 87 images with proposals, pooled features or the body's maps kept; none without torchvision."""
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derived_seed(0, "detector"))
            net = bccd_faster_rcnn().eval()
    except (DataError, RuntimeError):
        return []
    images = torch.rand(effort.of(87, 1), 3, *SIZE, generator=stream(0, "images"))
    data = Examples(images, torch.zeros(len(images)))
    rounds = Effort(max(1, effort.repeats // 5), quick=effort.quick)
    figures = []
    for place, (layers, most) in PLACES.items():
        model = adapt(net, detector_adapter(layers), example=images[:1], call=detect)
        cache = PrefixCache(model, probe=images[:1])
        cache.fill(data)
        phi = torch.zeros(1, model.dim)
        note = f"{cache.bytes_in_memory / 2**20:.0f} MiB kept for {len(images)} images of 320 x 240, one thread"
        label = Label("p", f"query / full pass: Faster R-CNN, FiLM on {place}", most, note=note)
        figures.append(ratio(label, partial(cache.whole_outputs, phi, data), partial(_full, model, images), rounds))
    return figures


def _full(model: AdaptedModel, images: Tensor) -> None:
    """Every image through the whole detector, one after the other, as it is used."""
    with torch.no_grad():
        for image in images:
            model.net([image])
