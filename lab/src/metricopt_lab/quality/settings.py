"""What a run of the quality benchmark is asked to do."""

from dataclasses import dataclass

from metricopt.core.errors import BudgetError
from metricopt.core.registry import one_of
from metricopt_lab.problems.zoo import DEVELOPMENT_SEEDS, FINAL_SEEDS, Half

SMALLEST_BUDGET = 15
"""Below it a search has no more than its starts."""


@dataclass(frozen=True)
class Settings:
    """What to run; names that are left out stand for all there are.

    Attributes:
        half: Which problems: those that may be looked at, or those that are measured once.
        queries: Budgets of metric calls, in increasing order.
        seeds: How many seeds: from 0 on for development, from 100 on in the end.
        first_seed: The first of them, if some are to be left out.
        problems: Names of problems of that half.
        methods: Names of methods.

    Example:
        >>> Settings(half="final", seeds=2).seed_list, Settings(half="final", seeds=2, first_seed=103).seed_list
        ([100, 101], [103, 104])
        >>> Settings(queries=(150, 50))
        Traceback (most recent call last):
        metricopt.core.errors.BudgetError: the budgets are (150, 50); expected increasing numbers from 15 on, ...
    """

    half: Half = "development"
    queries: tuple[int, ...] = (50, 150, 500, 2000)
    seeds: int = 5
    problems: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    first_seed: int = 0

    def __post_init__(self) -> None:
        one_of(self.half, ("development", "final"), what="half")
        increasing = tuple(sorted(set(self.queries))) == self.queries
        if not self.queries or not increasing or self.queries[0] < SMALLEST_BUDGET:
            raise BudgetError(
                f"the budgets are {self.queries}; expected increasing numbers from {SMALLEST_BUDGET} on, "
                f"such as 50,150,500"
            )
        every = FINAL_SEEDS if self.half == "final" else DEVELOPMENT_SEEDS
        if not 1 <= self.seeds <= len(every):
            raise BudgetError(f"{self.seeds} seeds were asked for; expected 1 to {len(every)}")
        if self.first_seed not in (0, *every):
            raise BudgetError(
                f"the first seed is {self.first_seed}; expected one of the {self.half} half: {every[0]} to {every[-1]}"
            )

    @property
    def seed_list(self) -> list[int]:
        """The seeds: no network of the end was ever looked at while developing."""
        every = FINAL_SEEDS if self.half == "final" else DEVELOPMENT_SEEDS
        return [seed for seed in every if seed >= self.first_seed][: self.seeds]
