"""Training, search and acceptance data: three sets, apart from each other, recognised by their contents."""

import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from metricopt.core.errors import DataError
from metricopt.core.seeding import stream
from metricopt.data.dataset import Examples, as_examples, as_hidden, check_classes
from metricopt.data.leakage import check_apart


def three_sets(
    train: Any, val: Any, holdout: Any, *, seed: int, hidden: bool = False, dtype: torch.dtype = torch.float32
) -> dict[str, Examples]:
    """The sets `train`, `val` and `holdout`; without a holdout, 40% of `val` is set aside for it.

    With hidden truth the targets of `val` are its row numbers, and those of `holdout` go on counting. Inputs stay on
    the device they are on, targets and groups come to the processor's memory; float64 becomes `dtype`.

    Example:
        >>> draw = torch.Generator().manual_seed(0)
        >>> x = torch.randn(80, 2, generator=draw)
        >>> sets = three_sets((x[:30], x[:30, 0] > 0), (x[30:], x[30:, 0] > 0), None, seed=0)
        >>> {name: len(examples) for name, examples in sets.items()}
        {'train': 30, 'val': 30, 'holdout': 20}
    """
    sets = {
        "train": as_examples(train, name="train", dtype=dtype),
        "val": as_hidden(val, name="val", dtype=dtype) if hidden else as_examples(val, name="val", dtype=dtype),
    }
    if holdout is not None:
        first = len(sets["val"])
        sets["holdout"] = (
            as_hidden(holdout, name="holdout", first=first, dtype=dtype)
            if hidden
            else as_examples(holdout, name="holdout", dtype=dtype)
        )
    _check_numbers(sets)
    sets = {name: part.with_truth_on_host() for name, part in sets.items()}
    _check_alike(sets, hidden)
    for name, part in {} if hidden else sets.items():
        check_classes(sets["train"], part, name=name)
    check_apart({name: part.inputs if hidden else (part.inputs, part.targets) for name, part in sets.items()})
    if holdout is None:
        sets["val"], sets["holdout"] = _cut(sets["val"], seed)
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


def _check_numbers(sets: Mapping[str, Examples]) -> None:
    """NaN would go unnoticed through a network until every metric fails."""
    for name, part in sets.items():
        for what, tensor in (("inputs", part.inputs), ("targets", part.targets)):
            if tensor.device.type == "meta":
                raise DataError(
                    f"{what} of {name} are on the meta device, which holds no numbers; expected data: pass tensors "
                    f"of another device"
                )
            if not tensor.is_floating_point():
                continue
            broken = ~torch.isfinite(tensor.reshape(len(tensor), -1)).all(1)
            if bool(broken.any()):
                raise DataError(
                    f"{what} of {name} hold NaN or infinity in {int(broken.sum())} of {len(part)} rows, the first of "
                    f"them row {int(broken.nonzero()[0])}; expected numbers: drop or fill in these rows"
                )


def _check_alike(sets: Mapping[str, Examples], hidden: bool) -> None:
    for name, part in sets.items():
        for what in ("inputs",) if hidden else ("inputs", "targets"):
            found, expected = getattr(part, what), getattr(sets["train"], what)
            if found.shape[1:] != expected.shape[1:] or found.is_floating_point() != expected.is_floating_point():
                raise DataError(
                    f"{what} of {name} have shape {tuple(found.shape)} and type {found.dtype}, those of train "
                    f"{tuple(expected.shape)} and {expected.dtype}; expected rows of one kind: encode both alike"
                )


def _cut(val: Examples, seed: int, *, share: float = 0.4) -> tuple[Examples, Examples]:
    """Two random parts; should one of them lack a class, the classes are spread evenly over both."""
    if len(val) < 20:
        raise DataError(f"val has {len(val)} rows; expected at least 20, or a holdout of its own: pass more rows")
    order = torch.randperm(len(val), generator=stream(seed, "holdout"))
    cut = len(val) - round(share * len(val))
    if val.has_classes:
        classes = val.targets[order]
        sizes = {len(torch.unique(part)) for part in (classes, classes[:cut], classes[cut:])}
        order = order if len(sizes) == 1 else order[_spread(classes).argsort(stable=True)]
    return val.rows(order[:cut]), val.rows(order[cut:])


def _spread(classes: Tensor) -> Tensor:
    """Places in (0, 1), (n,), over which the members of each class are spread evenly in the order they come."""
    place = torch.zeros(len(classes))
    for label in torch.unique(classes).tolist():
        mine = (classes == label).nonzero().flatten()
        place[mine] = (torch.arange(len(mine)) + 0.5) / len(mine)
    return place
