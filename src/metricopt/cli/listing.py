"""`metricopt list`: what is there, by name."""

import inspect
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Annotated

import typer

from metricopt.cli.output import Json, deliver
from metricopt.core.errors import UnknownNameError

Lines = list[tuple[str, str]]


def list_command(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="[KIND]",
            help="metrics, losses, adapters, values, optimizers; of the laboratory data, experiments, networks, "
            "problems, rivals.",
        ),
    ] = None,
    json: Json = None,
) -> None:
    """List what is registered, with a line about each.

    Examples:

        metricopt list

        metricopt list metrics

        metricopt list adapters --json -
    """
    kinds = KINDS | _added()
    if kind is not None and kind not in kinds:
        raise UnknownNameError(f"there is nothing to list under {kind!r}; known: {', '.join(kinds)}")
    listed = {name: lines() for name, lines in kinds.items() if kind in (None, name)}
    text = "\n\n".join(_table(name, lines) for name, lines in listed.items())
    deliver(text, {name: dict(lines) for name, lines in listed.items()}, json)


def _table(title: str, lines: Lines) -> str:
    width = max(len(name) for name, _ in lines)
    return "\n".join([title, *(f"  {name:<{width}}  {about}" for name, about in lines)])


def first_line(component: object) -> str:
    """The first line of what a component says of itself."""
    return (inspect.getdoc(component) or "").partition("\n")[0]


def _metrics() -> Lines:
    from metricopt.metrics import METRICS

    return [(name, f"({metric().goal}) {first_line(metric)}") for name, metric in METRICS.items()]


def _losses() -> Lines:
    from metricopt import losses

    # A loss with a setting is registered as a partial, which describes itself, not the loss.
    return [(name, first_line(getattr(losses, name, loss))) for name, loss in losses.LOSSES.items()]


def _adapters() -> Lines:
    from metricopt.adapters import ADAPTERS

    return [(name, first_line(adapter)) for name, adapter in ADAPTERS.items()]


def _values() -> Lines:
    from metricopt.search.transfer.shelf import entries

    return [(name, f"{entry.about}. {entry.measured}") for name, entry in entries().items()]


def _optimizers() -> Lines:
    from metricopt.paper.learned.weights import load_optimizer, shipped_optimizers

    return [(name, str(load_optimizer(name).about.get("about", ""))) for name in shipped_optimizers()]


def _added() -> dict[str, Callable[[], Lines]]:
    """Kinds of other packages, such as the laboratory's rivals: an entry point each, named like the kind."""
    return {added.name: added.load() for added in entry_points(group="metricopt.kinds")}


KINDS: dict[str, Callable[[], Lines]] = {
    "metrics": _metrics,
    "losses": _losses,
    "adapters": _adapters,
    "values": _values,
    "optimizers": _optimizers,
}
"""How to list each kind."""
