"""A cell of the quality benchmark."""

from dataclasses import dataclass

DEFAULT_DIM = 32


@dataclass(frozen=True)
class QualityCell:
    """A method on a problem with a seed and a size of phi.

    Attributes:
        film_dim: Size of FiLM's part of phi.

    Example:
        >>> QualityCell("a9a_plain_f1", "cma_es", 0).key
        'a9a_plain_f1__cma_es__0'
    """

    problem: str
    method: str
    seed: int
    film_dim: int = DEFAULT_DIM

    @property
    def key(self) -> str:
        """Name of its record; the size of phi is in it unless it is the usual one."""
        size = "" if self.film_dim == DEFAULT_DIM else f"__d{self.film_dim}"
        return f"{self.problem}__{self.method}__{self.seed}{size}"

    @property
    def job(self) -> str:
        """Name of the problem, which is loaded and pre-trained once for all methods."""
        return f"{self.problem}__{self.seed}__d{self.film_dim}"
