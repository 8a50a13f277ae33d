"""What a run of the quality benchmark is asked to do."""

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

from metricopt.core.errors import BudgetError, UnknownNameError
from metricopt.search import Recipe
from metricopt_lab.quality.cell import DEFAULT_DIM

SMALLEST_BUDGET = 15
"""Below it the paper's preset has too few trajectories, and a default search no more than its starts."""


@dataclass(frozen=True)
class Settings:
    """What to run; names that are left out stand for all there are.

    Attributes:
        queries: Budgets, in increasing order.
        seeds: How many seeds, counted from 0.
        problems: Names of problems.
        methods: Names of methods.
        dims: Sizes of FiLM's part of phi; tables show the first, the others are for the target about dimensions.
        resamples: Bootstrap resamples of the acceptance test.
        tag: Name of a variant of MetricOpt, run as `metricopt@tag` and `metricopt_labels@tag`.
        recipe: Its settings, where they differ from the default's.

    Example:
        >>> Settings(queries=(50, 150)).budget
        150
        >>> Settings(queries=(150, 50))
        Traceback (most recent call last):
        metricopt.core.errors.BudgetError: the budgets are (150, 50); expected increasing numbers from 15 on, ...
    """

    queries: tuple[int, ...] = (50, 150, 500)
    seeds: int = 5
    problems: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    dims: tuple[int, ...] = (DEFAULT_DIM,)
    resamples: int = 300
    tag: str = ""
    recipe: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        increasing = tuple(sorted(set(self.queries))) == self.queries
        if not self.queries or not increasing or self.queries[0] < SMALLEST_BUDGET:
            raise BudgetError(
                f"the budgets are {self.queries}; expected increasing numbers from {SMALLEST_BUDGET} on, "
                f"such as 50,150,500"
            )
        if self.seeds < 1:
            raise BudgetError(f"{self.seeds} seeds were asked for; expected at least 1, and 5 for significance")
        if not self.dims or min(self.dims) < 1:
            raise BudgetError(f"the sizes of phi are {self.dims}; expected whole numbers from 1 on, such as 16,64")
        if not all(letter.isalnum() or letter in "-_." for letter in self.tag):
            raise UnknownNameError(f"the tag is {self.tag!r}; expected letters, digits, -, _ or ., as in a file name")
        if bool(self.recipe) and not self.tag:
            raise UnknownNameError(f"the recipe {self.recipe} has no tag; expected a name for it: add --tag NAME")
        recipe_with(self.recipe)

    @property
    def budget(self) -> int:
        """The largest budget."""
        return self.queries[-1]


def recipe_with(overrides: dict[str, Any]) -> Recipe:
    """The default recipe with some of its fields set otherwise.

    Example:
        >>> recipe_with({"whiten": False}).whiten
        False
        >>> recipe_with({"whitten": False})
        Traceback (most recent call last):
        metricopt.core.errors.UnknownNameError: a recipe has no field 'whitten'; expected one of starts, ...
    """
    known = [one.name for one in dataclasses.fields(Recipe)]
    for name in overrides:
        if name not in known:
            raise UnknownNameError(f"a recipe has no field {name!r}; expected one of {', '.join(known)}")
    for one in dataclasses.fields(Recipe):
        found = overrides.get(one.name, one.default)
        if type(found) is not type(one.default) and not (isinstance(one.default, float) and type(found) is int):
            raise UnknownNameError(f"the recipe has {one.name}={found!r}; expected one like {one.default!r}")
    return dataclasses.replace(Recipe(), **overrides)


def recipe_from_json(text: str) -> dict[str, Any]:
    """Fields of a recipe from a JSON object.

    Example:
        >>> recipe_from_json('{"whiten": false}')
        {'whiten': False}
    """
    try:
        fields = json.loads(text or "{}")
    except json.JSONDecodeError as error:
        raise UnknownNameError(f"--recipe {text!r} is not JSON ({error}); expected an object of fields") from error
    if not isinstance(fields, dict):
        raise UnknownNameError(f'--recipe {text!r} is no JSON object; expected one such as {{"whiten": false}}')
    return fields
