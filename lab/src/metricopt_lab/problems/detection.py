"""The problem of Table 6 here: a trained Faster R-CNN on blood cells, as it was trained and with shifted images.

The detector has learnt from 205 images; the other 159 are cut into five folds. A fold is what results are reported on,
the other four are searched (three fifths of them) and decide what is kept (two fifths), so that five seeds report on
every image once, none of them by a search that has seen it.
"""

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from metricopt.adapters import AdaptedModel, Adapter, adapt
from metricopt.adapters.detector import detect
from metricopt.adapters.graph.cache import PrefixCache
from metricopt.api.detectors import detector_adapter
from metricopt.core.errors import DataError
from metricopt.core.seeding import stream
from metricopt.core.tree import Tree, joined
from metricopt.data.boxes import BoxImages
from metricopt.data.dataset import Examples
from metricopt.losses.boxes import box_loss
from metricopt.metrics import Metric, ap50
from metricopt.run.ledger import QueryLedger
from metricopt.task.base import Loss
from metricopt.task.oracle import Oracle
from metricopt.task.supervised import SupervisedTask
from metricopt_lab.data.bccd import bccd
from metricopt_lab.data.download import cache_folder
from metricopt_lab.networks.detector import bccd_faster_rcnn
from metricopt_lab.problems.microscope_shifts import SHIFTS

FOLDS = 5
WEIGHTS = "bccd_fasterrcnn.safetensors"


@dataclass(frozen=True)
class Sizes:
    """How many images each part has at most; None for all."""

    train: int | None = None
    search: int | None = None
    accept: int | None = None
    test: int | None = None


SIZES = {"smoke": Sizes(4, 12, 8, 4), "small": Sizes(train=32)}


# Field by field it would compare tensors, whose truth is ambiguous.
@dataclass(frozen=True, eq=False)
class Detection:
    """An adapted detector and images in four parts, what no phi can change of them computed once.

    Attributes:
        model: The detector with its adapter.
        metric: AP50 by COCO's rule.
        train: Images it was trained on, as they were.
        search: Shifted images that the metric is queried on.
        accept: Shifted images that decide what is kept.
        test: Shifted images that results are reported on.
        pictures: The test images themselves.
        cache: What is recalled of them all.
        seed: Of fold, split and adapter.
    """

    model: AdaptedModel
    metric: Metric
    train: Examples
    search: Examples
    accept: Examples
    test: Examples
    pictures: BoxImages
    cache: PrefixCache
    seed: int

    def oracle(self, *, queries: int | None, labels_visible: bool = False, loss: Loss = box_loss) -> Oracle:
        """Who answers about AP50 of the searched images."""
        task = SupervisedTask(
            self.model,
            loss=loss,
            metric=self.metric,
            train=self.train,
            search=self.search,
            batch_size=8,
            labels_visible=labels_visible,
            cache=self.cache,
        )
        return Oracle(task, QueryLedger(budget=queries))

    def found(self, phi: Tensor, data: Examples) -> Tree:
        """What the detector finds in some of the images at one phi (dim,)."""
        return self.cache.whole_outputs(phi[None], data)[0]

    @cached_property
    def labelled(self) -> Examples:
        """All images with labels that a user has: those to search and those to decide."""
        parts = (self.search, self.accept)
        return Examples(joined([part.inputs for part in parts]), joined([part.targets for part in parts]))

    @cached_property
    def before(self) -> Tree:
        """What the detector finds in the test images as it is."""
        return self.found(torch.zeros(self.model.dim), self.test)


def detection(scale: str, condition: str, seed: int, *, adapter: Adapter | None = None) -> Detection:
    """The problem at a scale, under a condition, of one fold."""
    sizes = SIZES[scale]
    spare = [bccd("val"), bccd("test")]
    parts = _split(sum(len(each) for each in spare), seed)
    images = [image for each in spare for image in each.images]
    targets = [target for each in spare for target in each.targets]
    names = tuple(name for each in spare for name in each.names)
    every = BoxImages(images, targets, spare[0].classes, names)
    shifted = SHIFTS[condition](every.examples().inputs)

    def part(index: Tensor, most: int | None) -> Examples:
        some = index[:most]
        return Examples(shifted[some], [targets[i] for i in some.tolist()])

    learnt = bccd("train")
    chosen = torch.randperm(len(learnt), generator=stream(seed, "train images"))[: sizes.train]
    train = learnt.rows(chosen.tolist()).examples()
    net = trained_detector()
    model = adapt(net, adapter or detector_adapter(), seed=seed, example=train.inputs[:1], call=detect)
    cache = PrefixCache(model, probe=train.inputs[:1])
    return Detection(
        model,
        ap50(),
        train,
        part(parts[0], sizes.search),
        part(parts[1], sizes.accept),
        part(parts[2], sizes.test),
        every.rows(parts[2][: sizes.test].tolist()),
        cache,
        seed,
    )


def _split(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Numbers of images to search, to decide and to report on; five seeds report on each image once."""
    fold = torch.randperm(count, generator=stream(seed // FOLDS, "folds")) % FOLDS
    rest = (fold != seed % FOLDS).nonzero()[:, 0]
    rest = rest[torch.randperm(len(rest), generator=stream(seed, "search images"))]
    cut = round(0.6 * len(rest))
    return rest[:cut], rest[cut:], (fold == seed % FOLDS).nonzero()[:, 0]


def trained_detector() -> nn.Module:
    """The detector with its trained weights, in eval mode; `weights_at` says where they are looked for."""
    net = bccd_faster_rcnn()
    net.load_state_dict(load_file(weights_at(WEIGHTS, "bccd")))
    return net.eval()


def weights_at(file: str, data: str) -> Path:
    """Where the weights of a detector trained on some data are.

    The file that METRICOPT_DETECTOR names, else one in the cache folder, or in `checkpoints/detection` beside the data;
    `metricopt pretrain bccd_faster_rcnn`, `voc07_faster_rcnn` or `voc07_12_faster_rcnn` makes it.
    """
    places = [cache_folder() / file]
    if folder := os.environ.get("METRICOPT_DATA"):
        places.append((Path(folder) / "bccd").resolve().parents[1] / "checkpoints" / "detection" / file)
    if named := os.environ.get("METRICOPT_DETECTOR"):
        places = [Path(named)]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise DataError(
            f"there are no weights of the detector at {' or '.join(map(str, places))}; expected a safetensors file: "
            f"make it by `metricopt pretrain {data}_faster_rcnn`, or name one by METRICOPT_DETECTOR"
        )
    return path
