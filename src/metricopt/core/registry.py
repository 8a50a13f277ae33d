"""Named components: one decorator registers them, one sentence helps when a name is wrong."""

import difflib
import importlib
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from metricopt.core.errors import UnknownNameError

Component = TypeVar("Component")


class Registry(Generic[Component]):
    """Components of one kind by name, in the order they were added.

    Example:
        >>> shapes: Registry[Callable[[float], float]] = Registry("shape")
        >>> @shapes.add("square")
        ... def square(side: float) -> float:
        ...     return side * side
        >>> shapes["square"](3.0)
        9.0
        >>> list(shapes)
        ['square']
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._components: dict[str, Component] = {}

    def add(self, name: str) -> Callable[[Component], Component]:
        """Decorator that registers what it decorates under `name` and returns it unchanged."""
        if name in self._components:
            raise ValueError(f"{self.kind} {name!r} is already registered")

        def register(component: Component) -> Component:
            self._components[name] = component
            return component

        return register

    def __getitem__(self, name: str) -> Component:
        try:
            return self._components[name]
        except KeyError:
            raise UnknownNameError(self._advice(name)) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._components)

    def __len__(self) -> int:
        return len(self._components)

    def __contains__(self, name: object) -> bool:
        return name in self._components

    def items(self) -> list[tuple[str, Component]]:
        """Pairs of name and component."""
        return list(self._components.items())

    def _advice(self, name: str) -> str:
        near = difflib.get_close_matches(name, self._components, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(self._components) or 'none'}"
        return f"there is no {self.kind} named {name!r}; {hint}"


def import_all(package: str) -> None:
    """Import every module of a package, so that what is registered in a new file is found without being listed.

    Example:
        >>> import_all("metricopt.losses")
    """
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")


def one_of(found: str, choices: Sequence[str], *, what: str) -> None:
    """Raises UnknownNameError unless the setting called `what` is one of the choices.

    Example:
        >>> one_of("max", ("max", "min"), what="goal")
        >>> one_of("mix", ("max", "min"), what="goal")
        Traceback (most recent call last):
        ...
        metricopt.core.errors.UnknownNameError: goal is 'mix'; expected 'max' or 'min': did you mean 'min'?
    """
    if found not in choices:
        listed = ", ".join(map(repr, choices[:-1])) + f" or {choices[-1]!r}"
        near = difflib.get_close_matches(str(found), choices, n=1, cutoff=0.5)
        raise UnknownNameError(
            f"{what} is {found!r}; expected {listed}" + (f": did you mean {near[0]!r}?" if near else "")
        )
