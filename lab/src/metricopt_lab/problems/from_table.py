"""A problem from the rows of a table: standardised, pre-trained, ready to search."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from metricopt.adapters import Adapter
from metricopt.core.errors import DataError
from metricopt.core.seeding import derived_seed, stream
from metricopt.data.dataset import Examples
from metricopt.data.sampling import Sampling
from metricopt.losses import cross_entropy
from metricopt.metrics import Metric
from metricopt_lab.data import Standardiser, Table, check_disjoint
from metricopt_lab.networks import TabularMLP
from metricopt_lab.problems.pretrain import pretrain
from metricopt_lab.problems.problem import Problem

BATCH_SIZE, EPOCHS = 256, 5


@dataclass(frozen=True, eq=False)
class Parts:
    """Row positions of the four parts of a problem, without a common one.

    Example:
        >>> Parts(*np.arange(8).reshape(4, 2)).sizes
        'train 2, search 2, accept 2, test 2'
    """

    train: np.ndarray
    search: np.ndarray
    accept: np.ndarray
    test: np.ndarray

    def __post_init__(self) -> None:
        check_disjoint(self.named)

    @property
    def named(self) -> dict[str, np.ndarray]:
        """The parts by name."""
        return {"train": self.train, "search": self.search, "accept": self.accept, "test": self.test}

    @property
    def sizes(self) -> str:
        """Rows of each part in words."""
        return ", ".join(f"{name} {len(rows)}" for name, rows in self.named.items())


def problem_from_table(
    table: Table,
    parts: Parts,
    *,
    name: str,
    metric: Metric,
    adapter: Adapter,
    sampling: Sampling,
    seed: int,
    split_note: str,
    train_targets: np.ndarray | None = None,
    groups: np.ndarray | None = None,
    cache: Path | None = None,
) -> Problem:
    """A pre-trained 100-30-10 MLP on the training part, with the other parts beside it.

    Columns that are not binary are standardised on the training rows; columns constant there are left out, for a
    network has nothing to learn about them and would apply untrained weights to them elsewhere.

    Args:
        table: All rows.
        parts: Which rows are what.
        name: Name of the problem.
        metric: What to improve.
        adapter: What to improve it with.
        sampling: How mini-batches are drawn, in pre-training and in finetuning.
        seed: Of training and adapter.
        split_note: How the parts were made, in words.
        train_targets: Targets of the training rows, where they are not the table's own.
        groups: Group code of each row of the table, for a metric that needs it.
        cache: Folder of weights trained before.

    Example:
        >>> from metricopt.adapters import OutputAffine
        >>> from metricopt_lab.data import adult_a9a
        >>> from metricopt.metrics import f_beta
        >>> rows = np.split(np.arange(2000), [1000, 1300, 1600])
        >>> problem = problem_from_table(adult_a9a(), Parts(*rows), name="small", metric=f_beta(),
        ...                              adapter=OutputAffine(), sampling="plain", seed=0, split_note="first rows")
        >>> len(problem.train), problem.task().dim
        (1000, 2)
    """
    inputs = _inputs(table, parts)
    train = Examples(inputs["train"], torch.from_numpy(
        table.target[parts.train] if train_targets is None else train_targets
    ))  # fmt: skip
    net = _untrained(train.inputs.shape[1], table.classes, seed)
    pretrain(net, train, epochs=EPOCHS, batch_size=BATCH_SIZE, sampling=sampling, seed=seed, cache=cache)
    others = {part: _examples(inputs[part], table.target, groups, rows) for part, rows in parts.named.items()}
    return Problem(
        name,
        net,
        adapter,
        cross_entropy,
        metric,
        train=train if groups is None else Examples(train.inputs, train.targets, others["train"].groups),
        search=others["search"],
        accept=others["accept"],
        test=others["test"],
        sampling=sampling,
        batch_size=BATCH_SIZE,
        notes=f"{table.source}. {split_note}; rows: {parts.sizes}. MLP 100-30-10 pre-trained by cross-entropy for "
        f"{EPOCHS} epochs (Adam, one cycle up to 0.01) with {sampling} batches of {BATCH_SIZE}. Seed {seed}.",
        seed=seed,
    )


def _inputs(table: Table, parts: Parts) -> dict[str, torch.Tensor]:
    train = table.features[parts.train]
    kept = np.flatnonzero(train.min(0) < train.max(0))
    numeric = ~np.isin(train[:, kept], (0, 1)).all(0)
    standard = Standardiser.fit(train[:, kept])
    change = Standardiser(np.where(numeric, standard.mean, 0), np.where(numeric, standard.std, 1))
    return {
        name: torch.from_numpy(np.ascontiguousarray(change.apply(table.features[rows][:, kept])))
        for name, rows in parts.named.items()
    }


def _examples(inputs: torch.Tensor, target: np.ndarray, groups: np.ndarray | None, rows: np.ndarray) -> Examples:
    return Examples(inputs, torch.from_numpy(target[rows]), None if groups is None else torch.from_numpy(groups[rows]))


def _untrained(features: int, classes: int, seed: int) -> TabularMLP:
    # Layers draw their first weights from torch's global state, which is none of ours to move.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(seed, "initial weights"))
        return TabularMLP(features, outputs=1 if classes == 2 else classes)


def shuffled_parts(rows: np.ndarray, sizes: Sequence[int], *, seed: int) -> list[np.ndarray]:
    """Parts of `rows` of the given sizes, drawn at random; what is left over belongs to none.

    Example:
        >>> [len(part) for part in shuffled_parts(np.arange(100), (60, 20), seed=0)]
        [60, 20]
    """
    if sum(sizes) > len(rows):
        raise DataError(f"{len(rows)} rows were asked for {sum(sizes)} in parts of {tuple(sizes)}; ask for fewer")
    order = torch.randperm(len(rows), generator=stream(seed, "split")).numpy()
    return np.split(rows[order], np.cumsum(sizes))[: len(sizes)]
