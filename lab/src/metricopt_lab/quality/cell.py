"""A cell of the quality benchmark."""

from dataclasses import dataclass


@dataclass(frozen=True)
class QualityCell:
    """A method on a problem with a seed and a budget.

    Attributes:
        queries: Calls of the metric that it may spend.

    Example:
        >>> QualityCell("adult_aucpr", "wise_ft", 0, 150).key
        'adult_aucpr__0__wise_ft__0150'
    """

    problem: str
    method: str
    seed: int
    queries: int

    @property
    def key(self) -> str:
        """Name of its record."""
        return f"{self.problem}__{self.seed}__{self.method}__{self.queries:04d}"

    @property
    def job(self) -> str:
        """Name of the problem, which is built once for all methods and budgets, and finetuned once for all rivals."""
        return f"{self.problem}__{self.seed}"
