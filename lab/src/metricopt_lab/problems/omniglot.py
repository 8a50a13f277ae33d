"""Retrieval of characters: an embedding of Omniglot, images as trained or disturbed, every part of other alphabets."""

from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import torch
from torch import Tensor, nn

from metricopt.adapters import FiLM
from metricopt.core.errors import DataError
from metricopt.core.seeding import derived_seed, stream
from metricopt.data.dataset import Examples
from metricopt.data.sampling import PerClass
from metricopt.losses import fast_ap
from metricopt.metrics import Metric, recall_at_k
from metricopt_lab.data.download import cache_folder
from metricopt_lab.data.omniglot import BACKGROUND, CLASSES, DRAWINGS, Omniglot, omniglot
from metricopt_lab.networks.embedding import OmniglotEmbedding
from metricopt_lab.problems.pretrain import pretrain
from metricopt_lab.problems.pretrained import load_network, save_network
from metricopt_lab.problems.problem import Problem
from metricopt_lab.problems.shifts import SHIFTS

TRAINED = 769
"""Classes 0 .. 768, 24 whole alphabets, train the network; 769 .. 963 are asked about, 964 .. 1622 test it."""
STEPS, BATCH, RATE = 1000, 128, 1e-3


@dataclass(frozen=True)
class Sizes:
    """How many classes of 20 drawings each part has.

    Attributes:
        train: Of those that the network was trained on, for the loss.
        search: Of 769 .. 963, to ask the metric about.
        accept: Of the rest of these, to decide.
        test: Of the 659 of unseen alphabets, evenly spread and the same for every seed.
    """

    train: int
    search: int
    accept: int
    test: int


def trained_network(*, data: Omniglot | None = None, steps: int = STEPS, seed: int = 0) -> nn.Module:
    """The embedding trained with FastAP on classes 0 .. 768, batches of 32 classes and 4 drawings each.

    From the folder `omniglot_embedding` of the cache where `metricopt pretrain omniglot_embedding` left it, or trained
    now and kept: about four minutes on one core.
    """
    kept = kept_folder()
    if steps == STEPS and seed == 0 and (kept / "network.json").exists():
        return load_network(kept)
    data = omniglot() if data is None else data
    rows = rows_of(torch.arange(TRAINED))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(seed, "omniglot", "first weights"))
        net = OmniglotEmbedding()
    train = Examples(data.images(rows), data.labels[rows])
    epochs = max(1, round(steps * BATCH / len(train)))
    return pretrain(net, train, loss=fast_ap, epochs=epochs, batch_size=BATCH, lr=RATE, weight_decay=0.0,
                    sampling=PerClass(4), seed=seed, cache=cache_folder() / "networks")  # fmt: skip


def omniglot_retrieval(shift: str, sizes: Sizes, *, seed: int, steps: int = STEPS) -> Problem:
    """A network for retrieval whose images are of some kind, and which is asked about classes it has never seen.

    Its backbone, the first three blocks, stays as it is and is computed once an image; what is changed comes after it.

    Args:
        shift: What happened to images since the network was trained, "clean" for nothing; training images are as they
            were.
        sizes: Classes of each part.
        seed: Of which classes are in which part, of the disturbance and of the adapter.
        steps: Of the network's training.
    """
    between = torch.arange(TRAINED, BACKGROUND)
    between = between[torch.randperm(len(between), generator=stream(seed, "omniglot", "parts"))]
    if sizes.search + sizes.accept > len(between):
        raise DataError(
            f"{sizes.search} and {sizes.accept} classes were asked for; expected at most {len(between)} together"
        )
    known = torch.randperm(TRAINED, generator=stream(seed, "omniglot", "train"))[: sizes.train]
    parts = {
        "train": known,
        "search": between[: sizes.search],
        "accept": between[sizes.search : sizes.search + sizes.accept],
        "test": unseen(sizes),
    }
    # Test images are disturbed the same way for every seed: they are one test set.
    seeds = {name: 0 if name == "test" else seed for name in parts}
    kinds = {name: "clean" if name == "train" else shift for name in parts}
    made = {
        name: _seen(tuple(parts[name].tolist()), kinds[name], seed=seeds[name], part=name, steps=steps)
        for name in parts
    }
    return Problem(
        name=f"omniglot_{shift}",
        net=_network(steps).head(),
        adapter=FiLM(dim=128, layers=("norm",)),
        loss=fast_ap,
        metric=recall(),
        **made,
        sampling=PerClass(4),
        batch_size=64,
        notes=f"Omniglot 35 x 35, {shift}; network of classes 0..{TRAINED - 1}, its first three blocks frozen; train "
        f"{sizes.train} of these classes, search {sizes.search} and accept {sizes.accept} of "
        f"{TRAINED}..{BACKGROUND - 1}, test {sizes.test} of {BACKGROUND}..{CLASSES - 1}, {DRAWINGS} drawings each",
        seed=seed,
    )


@cache
def _network(steps: int) -> OmniglotEmbedding:
    net = trained_network(steps=steps)
    assert isinstance(net, OmniglotEmbedding)
    return net.eval()


# Test images are the same for every seed, training images for every condition of a seed.
@lru_cache(maxsize=16)
def _seen(classes: tuple[int, ...], shift: str, *, seed: int, part: str, steps: int) -> Examples:
    """All drawings of some classes as the backbone sees them."""
    images, net = disturbed(omniglot(), torch.tensor(classes), shift, seed=seed, part=part), _network(steps)
    with torch.no_grad():
        seen = torch.cat([net.backbone(some) for some in images.inputs.split(512)])
    return Examples(seen, images.targets)


def unseen(sizes: Sizes) -> Tensor:
    """Classes of the test, evenly spread and the same for every seed.

    Example:
        >>> unseen(Sizes(train=1, search=1, accept=1, test=2)).tolist()
        [964, 1622]
    """
    return torch.linspace(BACKGROUND, CLASSES - 1, sizes.test).round().long()


def recall() -> Metric:
    """What is improved: recall@1."""
    return recall_at_k(1)


def disturbed(data: Omniglot, classes: Tensor, shift: str, *, seed: int, part: str) -> Examples:
    """All drawings of some classes, disturbed."""
    rows = rows_of(classes)
    return Examples(SHIFTS[shift](data.images(rows), stream(seed, "shift", shift, part)), data.labels[rows])


def rows_of(classes: Tensor) -> Tensor:
    """Rows of the drawings of some classes, class by class.

    Example:
        >>> rows_of(torch.tensor([2]))[:3].tolist()
        [40, 41, 42]
    """
    return (DRAWINGS * classes.unsqueeze(1) + torch.arange(DRAWINGS)).flatten()


def kept_folder() -> Path:
    """Where `metricopt pretrain omniglot_embedding` leaves the network for the experiments to find."""
    return cache_folder() / "omniglot_embedding"


def pretrain_embedding(folder: Path, *, seed: int = 0, steps: int = STEPS) -> dict[str, float | int | str]:
    """Train the network, or take it from the cache, leave it in a folder, and tell its recall@1 on 769 .. 963."""
    data = omniglot()
    net = trained_network(data=data, steps=steps, seed=seed)
    val = disturbed(data, torch.arange(TRAINED, BACKGROUND), "clean", seed=0, part="search")
    with torch.no_grad():
        embeddings = torch.cat([net(part) for part in val.inputs.split(512)])
    facts: dict[str, float | int | str] = {
        "loss": "fast_ap",
        "steps": steps,
        "classes": TRAINED,
        "seed": seed,
        "recall_at_1": recall().value(embeddings, val.targets),
    }
    save_network(folder, "omniglot_embedding", net, facts)
    return facts
