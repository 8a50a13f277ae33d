"""What a search begins with and what it leaves for the next: the side of `optimize` and `study` that carries over."""

from pathlib import Path
from typing import Any, final

from metricopt.core.errors import FileFormatError
from metricopt.search import Recipe
from metricopt.search.transfer import CarriedValue, load_carried
from metricopt.search.transfer.bringing import brought
from metricopt.search.transfer.file import digest
from metricopt.search.transfer.keepsake import Keepsake
from metricopt.search.transfer.place import place_of
from metricopt.search.transfer.shelf import from_shelf
from metricopt.task.supervised import SupervisedTask


def carried_value(value: Any, *, preset: str = "default") -> CarriedValue | None:
    """What a user may hand in as `value`: a result, a file, a name on the shelf, or a value function itself.

    Example:
        >>> carried_value("no_such_name")
        Traceback (most recent call last):
        metricopt.core.errors.UnknownNameError: there is no value function named 'no_such_name' on the shelf; ...
    """
    if value is None:
        return None
    if preset != "default":
        raise FileFormatError(
            f"a value was given with preset={preset!r}, which learns one of its own; expected the default preset: "
            f"leave out either, or follow it with metricopt.finetune"
        )
    if isinstance(value, str):
        return from_shelf(value)
    if isinstance(value, Path):
        return load_carried(value)
    found = value if isinstance(value, CarriedValue) else getattr(value, "carried", None)
    if not isinstance(found, CarriedValue):
        raise FileFormatError(
            f"value is a {type(value).__name__} without a value function; expected the result of an adapter's search "
            f"(tune='adapter'), the Path of a saved one, or a name on the shelf"
        )
    return found


@final
class Transfer:
    """What is brought to one search, checked before its first query, and what is gathered along it.

    Attributes:
        brought: What it begins with; None for nothing.
        keepsake: What is gathered.
        facts: What a run must say of it to be resumed.
    """

    def __init__(self, task: Any, recipe: Recipe, value: CarriedValue | None, *, queries: int) -> None:
        self._task, self._rows = task, recipe.rows
        self.keepsake = Keepsake()
        self.brought = None
        self.facts: dict[str, Any] = {}
        if value is not None:
            if not recipe.views:
                raise FileFormatError(
                    "a value was given with Recipe(views=False), which looks at phi alone; expected a search of "
                    "predictions: leave out either"
                )
            self.brought = brought(value, task, queries=queries, rows=recipe.rows)
            self.facts = {"value": digest(value), "value_of": self.brought.kind}

    def learnt(self) -> CarriedValue | None:
        """What the search has learnt; None if it has no two answers, or none of an adapter."""
        if not isinstance(self._task, SupervisedTask) or len(self.keepsake.costs) < 2:
            return None
        place = place_of(self._task, rows=self._rows)
        return self.keepsake.value(self._task, place, rows=self._rows, answers=len(self.keepsake.costs))
