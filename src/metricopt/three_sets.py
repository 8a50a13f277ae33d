"""Training, search and acceptance data: three sets, apart from each other, recognised by their contents."""

import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from metricopt.data import check_apart
from metricopt.errors import DataError
from metricopt.examples import Examples, as_examples, as_hidden
from metricopt.seeding import stream


def three_sets(train: Any, val: Any, holdout: Any, *, seed: int, hidden: bool = False) -> dict[str, Examples]:
    """The sets `train`, `val` and `holdout`; without a holdout, 40% of `val` is set aside for it.

    With hidden truth the targets of `val` are its row numbers, and those of `holdout` go on counting.

    Example:
        >>> draw = torch.Generator().manual_seed(0)
        >>> x = torch.randn(80, 2, generator=draw)
        >>> sets = three_sets((x[:30], x[:30, 0] > 0), (x[30:], x[30:, 0] > 0), None, seed=0)
        >>> {name: len(examples) for name, examples in sets.items()}
        {'train': 30, 'val': 30, 'holdout': 20}
    """
    sets = {
        "train": as_examples(train, name="train"),
        "val": as_hidden(val, name="val") if hidden else as_examples(val, name="val"),
    }
    if holdout is None:
        sets["val"], sets["holdout"] = _cut(sets["val"], seed)
        _check(sets, ("train", "val"), hidden)
    else:
        first = len(sets["val"])
        sets["holdout"] = (
            as_hidden(holdout, name="holdout", first=first) if hidden else as_examples(holdout, name="holdout")
        )
        _check(sets, ("train", "val", "holdout"), hidden)
    return sets


def described(sets: Mapping[str, Examples]) -> dict[str, dict[str, Any]]:
    """Rows and fingerprint of each set, for records.

    Example:
        >>> described({"val": Examples(torch.zeros(2, 1), torch.tensor([0, 1]))})["val"]["rows"]
        2
    """
    return {name: {"rows": len(part), "fingerprint": _fingerprint(part)} for name, part in sets.items()}


def _fingerprint(examples: Examples) -> str:
    digest = hashlib.sha256()
    for part in (examples.inputs, examples.targets, examples.groups):
        if part is not None:
            digest.update(f"{tuple(part.shape)} {part.dtype}".encode())
            digest.update(part.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def _check(sets: Mapping[str, Examples], names: tuple[str, ...], hidden: bool) -> None:
    check_apart({name: sets[name].inputs if hidden else _plain(sets[name]) for name in names})


def _cut(val: Examples, seed: int, *, share: float = 0.4) -> tuple[Examples, Examples]:
    if len(val) < 20:
        raise DataError(f"val has {len(val)} rows; expected at least 20, or a holdout of its own: pass more rows")
    order = torch.randperm(len(val), generator=stream(seed, "holdout"))
    cut = len(val) - round(share * len(val))
    return val.rows(order[:cut]), val.rows(order[cut:])


def _plain(examples: Examples) -> tuple[Tensor, Tensor]:
    return examples.inputs, examples.targets
