"""What a cell is: one thing to be measured, which has a name and shares preparations with others of its job."""

from dataclasses import dataclass
from typing import Protocol

from metricopt.data.sampling import Sampling


class Cell(Protocol):
    """One thing to be measured.

    Attributes:
        method: What is measured; its version decides whether a record is of the present.
        seed: Seed of everything random.
    """

    @property
    def method(self) -> str: ...

    @property
    def seed(self) -> int: ...

    @property
    def key(self) -> str:
        """Name of its record."""
        ...

    @property
    def job(self) -> str:
        """Name of what it is prepared by, together with all other cells of that job."""
        ...


@dataclass(frozen=True)
class ScaledCell:
    """A cell of a table or a figure; those that differ in metric and method only share a pre-trained network.

    Example:
        >>> ScaledCell("small", "a9a", "plain", seed=0, metric="f1", method="cma_es").key
        'small-a9a-plain-seed0-f1-cma_es'
    """

    scale: str
    data: str
    sampling: Sampling
    seed: int
    metric: str
    method: str

    @property
    def key(self) -> str:
        """Name of its record."""
        return f"{self.job}-{self.metric}-{self.method}"

    @property
    def job(self) -> str:
        """Name of the work that all cells with the same network share."""
        return f"{self.scale}-{self.data}-{self.sampling}-seed{self.seed}"
