"""The five sources of the zoo as pools of rows: inputs, class, groups, and which rows are fixed as test rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import torch
from torch import Tensor

from metricopt.core.errors import DataError
from metricopt_lab.data import DATASETS, Table, cifar10
from metricopt_lab.data.download import cache_folder

RARE = 300  # garments with fewer reviews are left out: too few rows to judge a class by


@dataclass(frozen=True, eq=False)
class Pool:
    """All rows of a source.

    Attributes:
        inputs: float32, (n, ...); image pixels as uint8.
        target: Class of each row, (n,).
        classes: Number of classes.
        groups: Codes by kind, for shifts and for metrics by group.
        test: Rows that are always test rows, where the publishers say so.
    """

    inputs: Tensor
    target: Tensor
    classes: int
    groups: Mapping[str, np.ndarray] = field(default_factory=dict)
    test: np.ndarray | None = None


@cache
def adult() -> Pool:
    """UCI Adult, numbers standardised and categories one-hot."""
    return _from_table(DATASETS["adult_raw"]())


@cache
def covtype() -> Pool:
    """UCI CoverType, seven classes."""
    return _from_table(DATASETS["covtype7"]())


@cache
def cifar() -> Pool:
    """CIFAR-10 as bytes; the last 10,000 rows are the official test images."""
    both = cifar10()
    pixels = torch.cat([both.train.pixels, both.test.pixels]).contiguous(memory_format=torch.channels_last)
    labels = torch.cat([both.train.labels, both.test.labels])
    return Pool(pixels, labels, 10, test=np.arange(50_000, 60_000))


@cache
def reviews(about: str) -> Pool:
    """Clothing reviews as MiniLM embeddings; `about` is "not recommended", "rating" or "garment"."""
    found = _embedded("reviews")
    counts = np.bincount(found["garment"], minlength=len(found["garments"]))
    kept = np.flatnonzero(counts[found["garment"]] >= RARE)
    garment = np.unique(found["garment"][kept], return_inverse=True)[1]
    targets = {"not recommended": 1 - found["recommended"][kept], "rating": found["rating"][kept], "garment": garment}
    target = torch.from_numpy(targets[about].astype(np.int64))
    dresses = (found["garments"][found["garment"][kept]] == "Dresses").astype(np.int64)
    inputs = torch.from_numpy(found["x"][kept].astype(np.float32)) * _EMBEDDING_SCALE
    return Pool(inputs, target, int(target.max()) + 1, groups={"dresses": dresses, "garment": garment})


@cache
def clinc(*, out_of_scope: bool) -> Pool:
    """CLINC150 as MiniLM embeddings, with sentences out of scope as class 150 or without; test sentences come last."""
    found, parts = _embedded("clinc"), ("train", "val", "test")
    inputs = np.concatenate([found[f"x_{part}"] for part in parts])
    target = np.concatenate([found[f"y_{part}"] for part in parts]).astype(np.int64)
    official = np.arange(len(target)) >= len(target) - len(found["y_test"])
    kept = np.flatnonzero((target < 150) | out_of_scope)
    scaled = torch.from_numpy(inputs[kept].astype(np.float32)) * _EMBEDDING_SCALE
    classes = 151 if out_of_scope else 150
    return Pool(scaled, torch.from_numpy(target[kept]), classes, test=np.flatnonzero(official[kept]))


# Unit vectors of 384 numbers have entries near .05; a network starts better from entries near 1.
_EMBEDDING_SCALE = 20.0


def _embedded(name: str) -> dict[str, np.ndarray]:
    """What `metricopt embed` keeps of a source of text."""
    path = cache_folder() / f"{name}.npz"
    if not path.exists():
        raise DataError(f"{path} is missing; expected embeddings of {name}: make them by `metricopt embed`")
    with np.load(path) as arrays:
        return {each: arrays[each] for each in arrays.files}


def _from_table(table: Table) -> Pool:
    features = torch.from_numpy(table.features)
    numeric = ~((features == 0) | (features == 1)).all(0)
    mean, std = features.mean(0), features.std(0).clamp(min=1e-6)
    features = torch.where(numeric, (features - mean) / std, features)
    return Pool(features, torch.from_numpy(table.target), table.classes, groups=table.groups)
