"""What a user asks of a table, a figure or a study, and names that have to be known."""

from collections.abc import Sequence
from dataclasses import dataclass

from metricopt.core.errors import BudgetError, UnknownNameError


@dataclass(frozen=True)
class Settings:
    """What a user asks of an experiment that has scales.

    Attributes:
        seeds: How many seeds, 0 .. seeds - 1.
        scale: One of the experiment's scales.
        data: Some of the experiment's data sets, networks or problems; its usual ones by default.

    Example:
        >>> Settings(seeds=2).scale
        'small'
    """

    seeds: int = 5
    scale: str = "small"
    data: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise BudgetError(f"{self.seeds} seeds were asked for; expected at least 1")


def chosen(wanted: Sequence[str], known: Sequence[str], kind: str) -> list[str]:
    """The wanted names in the order of `known`, or all of these; an error for one that is not known.

    Example:
        >>> chosen(("b", "a"), ("a", "b", "c"), "letter")
        ['a', 'b']
        >>> chosen(["a9"], ["a9a", "covtype2"], "data set")
        Traceback (most recent call last):
        metricopt.core.errors.UnknownNameError: there is no data set named 'a9' here; known: a9a, covtype2
    """
    for name in wanted:
        if name not in known:
            raise UnknownNameError(f"there is no {kind} named {name!r} here; known: {', '.join(known)}")
    return [name for name in known if not wanted or name in wanted]
