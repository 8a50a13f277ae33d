"""Training, search and acceptance data: three sets, apart from each other, recognised by their contents."""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor

from metricopt.core.errors import DataError
from metricopt.core.seeding import stream
from metricopt.core.tree import Tree, described, row_count, same_structure, tensors_of
from metricopt.data.dataset import Data, Examples
from metricopt.data.given import as_data, as_hidden
from metricopt.data.lazy import Collate, LazyExamples
from metricopt.data.leakage import check_apart

_LOOKED_AT = 2  # rows by which sets are compared in structure


def three_sets(
    train: Any,
    val: Any,
    holdout: Any,
    *,
    seed: int,
    hidden: bool = False,
    dtype: torch.dtype = torch.float32,
    collate: Collate | None = None,
    whole: bool = False,
    by_class: bool = False,
) -> dict[str, Data]:
    """The sets `train`, `val` and `holdout`; without a holdout, 40% of `val` is set aside for it.

    Unless `whole` is said: then there is none. With `by_class` no class may be in two sets, as retrieval wants it.

    With hidden truth the targets of `val` are its row numbers, and those of `holdout` go on counting. Inputs stay on
    the device they are on, targets and groups come to the processor's memory; float64 becomes `dtype`.

    Example:
        >>> draw = torch.Generator().manual_seed(0)
        >>> x = torch.randn(80, 2, generator=draw)
        >>> sets = three_sets((x[:30], x[:30, 0] > 0), (x[30:], x[30:, 0] > 0), None, seed=0)
        >>> {name: len(examples) for name, examples in sets.items()}
        {'train': 30, 'val': 30, 'holdout': 20}
    """
    options: Any = {"dtype": dtype, "collate": collate}
    sets = {"train": as_data(train, name="train", **options)}
    read = as_hidden if hidden else as_data
    sets["val"] = read(val, name="val", **options)
    if holdout is not None:
        counted_on: Any = {"first": len(sets["val"])} if hidden else {}
        sets["holdout"] = read(holdout, name="holdout", **(options | counted_on))
    _check_numbers(sets)
    sets = {name: part.with_truth_on_host() if isinstance(part, Examples) else part for name, part in sets.items()}
    _check_alike(sets, hidden)
    _check_apart(sets, hidden)
    if by_class:
        _check_classes_apart(sets)
    if holdout is None and not whole:
        sets["val"], sets["holdout"] = cut(sets["val"], seed, by_class=by_class)
    elif holdout is None:
        _check_enough(sets["val"])
    return sets


def facts_of(sets: Mapping[str, Data]) -> dict[str, dict[str, Any]]:
    """Rows and fingerprint of each set, for records.

    Example:
        >>> facts_of({"val": Examples(torch.zeros(2, 1), torch.tensor([0, 1]))})["val"]["rows"]
        2
    """
    return {name: {"rows": len(part), "fingerprint": part.fingerprint()} for name, part in sets.items()}


def missing_classes(train: Data, other: Data) -> list[int]:
    """Classes of the training data that other data lack, as far as both are known; of more than 1000 none is told.

    Example:
        >>> train = Examples(torch.zeros(2, 1), torch.tensor([0, 1]))
        >>> missing_classes(train, train.rows(torch.tensor([0])))
        [1]
    """
    if train.classes is None or other.classes is None:
        return []
    known = set(torch.unique(train.classes).tolist())
    lacking = known - set(torch.unique(other.classes).tolist())
    return sorted(lacking) if len(known) <= 1000 else []


def cut(val: Data, seed: int, *, share: float = 0.4, by_class: bool = False) -> tuple[Data, Data]:
    """Two random parts; should one of them lack a class, the classes are spread evenly over both.

    Or, with `by_class`, parts of whole classes.

    Example:
        >>> [len(part) for part in cut(Examples(torch.zeros(50, 1), torch.arange(50) % 2), seed=0)]
        [30, 20]
        >>> [part.targets.unique().tolist() for part in cut(Examples(torch.zeros(50, 1), torch.arange(50) % 5), seed=0,
        ...                                                 by_class=True)]
        [[1, 2, 4], [0, 3]]
    """
    _check_enough(val)
    if by_class:
        return _cut_by_class(val, seed, share)
    order = torch.randperm(len(val), generator=stream(seed, "holdout"))
    place = len(val) - round(share * len(val))
    if val.classes is not None:
        classes = val.classes[order]
        sizes = {len(torch.unique(part)) for part in (classes, classes[:place], classes[place:])}
        order = order if len(sizes) == 1 else order[_spread(classes).argsort(stable=True)]
    return val.rows(order[:place]), val.rows(order[place:])


def _cut_by_class(val: Data, seed: int, share: float) -> tuple[Data, Data]:
    classes = _known_classes(val, "val")
    labels = torch.unique(classes)
    if len(labels) < 4:
        raise DataError(
            f"val has {len(labels)} classes; expected at least 4 to set some of them aside, or a holdout of other "
            f"classes: pass more classes"
        )
    order = labels[torch.randperm(len(labels), generator=stream(seed, "holdout"))]
    aside = torch.isin(classes, order[len(order) - round(share * len(order)) :])
    return val.rows((~aside).nonzero()[:, 0]), val.rows(aside.nonzero()[:, 0])


def _known_classes(data: Data, name: str) -> Tensor:
    if data.classes is None:
        raise DataError(
            f"targets of {name} are {described(data.truth[0])}; expected one class code a row, as whole numbers: "
            f"number the classes"
        )
    return data.classes


def _check_classes_apart(sets: Mapping[str, Data]) -> None:
    labels = {name: torch.unique(_known_classes(part, name)) for name, part in sets.items()}
    for one, other in combinations(labels, 2):
        shared = labels[other][torch.isin(labels[other], labels[one])]
        if len(shared):
            raise DataError(
                f"{len(shared)} of {len(labels[other])} classes of {other!r} are also in {one!r}, such as class "
                f"{int(shared[0])}; expected other classes, as retrieval is about unseen ones: split by class"
            )


def _check_enough(val: Data) -> None:
    if len(val) < 20:
        raise DataError(f"val has {len(val)} rows; expected at least 20, or a holdout of its own: pass more rows")


def _check_numbers(sets: Mapping[str, Data]) -> None:
    """NaN would go unnoticed through a network until every metric fails."""
    for name, part in sets.items():
        if isinstance(part, Examples):
            looked_at = {"inputs": part.inputs, "targets": part.targets}
        else:
            batch = part.batch(torch.arange(min(len(part), part.batch_size)), seed=0)
            looked_at = {"inputs": batch.inputs, "targets": batch.targets}
        for what, tree in looked_at.items():
            for tensor in tensors_of(tree):
                _check_tensor(tensor, f"{what} of {name}")


def _check_tensor(tensor: Tensor, what: str) -> None:
    if tensor.device.type == "meta":
        raise DataError(
            f"{what} are on the meta device, which holds no numbers; expected data: pass tensors of another device"
        )
    if not tensor.is_floating_point() or not tensor.dim() or not tensor.numel():
        return
    broken = ~torch.isfinite(tensor.reshape(len(tensor), -1)).all(1)
    if bool(broken.any()):
        raise DataError(
            f"{what} hold NaN or infinity in {int(broken.sum())} of {len(tensor)} rows, the first of them row "
            f"{int(broken.nonzero()[0])}; expected numbers: drop or fill in these rows"
        )


def _check_alike(sets: Mapping[str, Data], hidden: bool) -> None:
    expected = _first_rows(sets["train"])
    for name, part in sets.items():
        found = _first_rows(part)
        for what in ("inputs",) if hidden else ("inputs", "targets"):
            if not _alike(getattr(found, what), getattr(expected, what)):
                raise DataError(
                    f"{what} of {name} are {described(_whole(part, what))}, those of train "
                    f"{described(_whole(sets['train'], what))}; expected rows of one kind: encode both alike"
                )


def _first_rows(data: Data) -> Any:
    return data.batch(torch.arange(min(_LOOKED_AT, len(data))), seed=0)


def _whole(data: Data, what: str) -> Tree:
    """All of the inputs or targets where they are in memory, else of the rows looked at: what a message describes."""
    return getattr(data if isinstance(data, Examples) else _first_rows(data), what)


def _alike(found: Tree, expected: Tree) -> bool:
    """Of single tensors the rows must have one shape; parts of a tree may be padded differently."""
    if isinstance(found, Tensor) and isinstance(expected, Tensor):
        same_type = found.is_floating_point() == expected.is_floating_point()
        return same_type and (found.shape[1:] == expected.shape[1:] or row_count(found) is None)
    return same_structure(found, expected)


def _check_apart(sets: Mapping[str, Data], hidden: bool) -> None:
    """By content where all is in memory; data that are read lazily by which rows of which data set they are."""
    tensors = {name: _columns(part, hidden) for name, part in sets.items() if isinstance(part, Examples)}
    check_apart({name: columns for name, columns in tensors.items() if columns})
    lazy = {name: part.source() for name, part in sets.items() if isinstance(part, LazyExamples)}
    for one, other in combinations(lazy, 2):
        shared = np.intersect1d(lazy[one][1], lazy[other][1]) if lazy[one][0] == lazy[other][0] else np.zeros(0)
        if len(shared):
            raise DataError(
                f"{len(shared)} rows of {other!r} are also rows of {one!r} in the same data set, the first of them row "
                f"{int(shared[0])}; expected sets without a common row: pass other rows"
            )


def _columns(part: Examples, hidden: bool) -> tuple[Tensor, ...]:
    """The tensors of a set with one row an example; none where some of it are lists, which have no columns."""
    trees = (part.inputs,) if hidden else (part.inputs, part.targets)
    listed = any(isinstance(tree, list) for tree in trees)
    return () if listed else tuple(t for tree in trees for t in tensors_of(tree) if t.dim() and len(t) == len(part))


def _spread(classes: Tensor) -> Tensor:
    """Places in (0, 1), (n,), over which the members of each class are spread evenly in the order they come."""
    place = torch.zeros(len(classes))
    for label in torch.unique(classes).tolist():
        mine = (classes == label).nonzero().flatten()
        place[mine] = (torch.arange(len(mine)) + 0.5) / len(mine)
    return place
