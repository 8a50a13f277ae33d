"""Retrieval of products: ResNet-50 on Stanford Online Products, the paper's own setting; hours on a GPU."""

import os
from pathlib import Path

import torch
from torch import Tensor

from metricopt.adapters import FiLM
from metricopt.core.errors import DataError
from metricopt.core.seeding import derived_seed, stream
from metricopt.data.dataset import Examples
from metricopt.data.images import pillow, pixels_of
from metricopt.data.sampling import PerClass
from metricopt.losses import fast_ap
from metricopt_lab.data.download import cache_folder
from metricopt_lab.data.retrieval_sets import Listed, stanford_online_products
from metricopt_lab.networks.embedding import ResNet50Embedding
from metricopt_lab.problems.omniglot import Sizes, recall
from metricopt_lab.problems.pretrain import pretrain
from metricopt_lab.problems.problem import Problem

SIDE, EPOCHS, BATCH, RATE = 224, 30, 128, 1e-5
"""Pixels a side, and how the network is trained with FastAP, from ImageNet: the loss's authors' rate and epochs."""


def products_retrieval(sizes: Sizes, *, seed: int) -> Problem:
    """ResNet-50 with 512 dimensions, trained on some products, asked about others and tested on the official ones.

    Images are kept as bytes: all 120,000 take 18 GB. They are read from METRICOPT_DATA/Stanford_Online_Products.

    Args:
        sizes: Products of each part; those of train, search and accept are of the official training part.
        seed: Of which products are in which part, of training and of the adapter.
    """
    parts = product_parts(products_folder(), sizes, seed=seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(seed, "products", "first weights"))
        net = ResNet50Embedding(pretrained=True)
    pretrain(net, parts["train"], loss=fast_ap, epochs=EPOCHS, batch_size=BATCH, lr=RATE, weight_decay=0.0,
             sampling=PerClass(4), seed=seed, cache=cache_folder() / "networks")  # fmt: skip
    return Problem(
        name="products",
        net=net,
        adapter=FiLM(dim=128, layers=("body.layer4.2.bn2", "body.layer4.2.bn3")),
        loss=fast_ap,
        metric=recall(),
        **parts,
        sampling=PerClass(4),
        batch_size=64,
        notes=f"Stanford Online Products {SIDE} x {SIDE}; ResNet-50 from ImageNet trained with FastAP on {sizes.train} "
        f"products of the official training part, search {sizes.search} and accept {sizes.accept} others of it, test "
        f"{sizes.test} of the official test part",
        seed=seed,
    )


def product_parts(folder: Path, sizes: Sizes, *, seed: int, side: int = SIDE) -> dict[str, Examples]:
    """The four parts, no product in two of them, images as bytes (n, 3, side, side)."""
    listed = {part: stanford_online_products(folder, part) for part in ("train", "test")}
    known, unseen = (torch.unique(each.classes) for each in listed.values())
    if sizes.train + sizes.search + sizes.accept > len(known) or sizes.test > len(unseen):
        raise DataError(
            f"{sizes} asks for more products than the {len(known)} and {len(unseen)} that {folder} lists; expected "
            f"no more: choose smaller sizes, or unpack the whole archive"
        )
    known = known[torch.randperm(len(known), generator=stream(seed, "products", "parts"))]
    first, second = sizes.train, sizes.train + sizes.search
    chosen = {"train": known[:first], "search": known[first:second], "accept": known[second : second + sizes.accept]}
    parts = {name: _read(listed["train"], products, side) for name, products in chosen.items()}
    return parts | {"test": _read(listed["test"], unseen[: sizes.test], side)}


def products_folder() -> Path:
    """Where the archive is unpacked."""
    return Path(os.environ.get("METRICOPT_DATA", "data")) / "Stanford_Online_Products"


def _read(listed: Listed, products: Tensor, side: int) -> Examples:
    rows = torch.isin(listed.classes, products).nonzero()[:, 0]
    library = pillow()
    pixels = [pixels_of(listed.paths[row], (side, side), library, averaged=True)[0] for row in rows.tolist()]
    return Examples(torch.stack(pixels), listed.classes[rows])
