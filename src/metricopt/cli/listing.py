"""`metricopt list`: what is there, by name."""

import inspect
from collections.abc import Callable
from typing import Annotated

import typer

from metricopt.cli.output import Json, deliver
from metricopt.errors import UnknownNameError

Lines = list[tuple[str, str]]


def list_command(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="[KIND]",
            help="metrics, losses, adapters, models, data, baselines, problems or experiments; all if left out.",
        ),
    ] = None,
    json: Json = None,
) -> None:
    """List what is registered, with a line about each.

    Examples:

        metricopt list

        metricopt list metrics

        metricopt list baselines --json -
    """
    if kind is not None and kind not in KINDS:
        raise UnknownNameError(f"there is nothing to list under {kind!r}; known: {', '.join(KINDS)}")
    listed = {name: lines() for name, lines in KINDS.items() if kind in (None, name)}
    text = "\n\n".join(_table(name, lines) for name, lines in listed.items())
    deliver(text, {name: dict(lines) for name, lines in listed.items()}, json)


def _table(title: str, lines: Lines) -> str:
    width = max(len(name) for name, _ in lines)
    return "\n".join([title, *(f"  {name:<{width}}  {about}" for name, about in lines)])


def _first_line(component: object) -> str:
    return (inspect.getdoc(component) or "").partition("\n")[0]


def _metrics() -> Lines:
    from metricopt.metrics import METRICS

    return [(name, f"({metric().goal}) {_first_line(metric)}") for name, metric in METRICS.items()]


def _losses() -> Lines:
    from metricopt import losses

    # A loss with a setting is registered as a partial, which describes itself, not the loss.
    return [(name, _first_line(getattr(losses, name, loss))) for name, loss in losses.LOSSES.items()]


def _adapters() -> Lines:
    from metricopt.adapters import ADAPTERS

    return [(name, _first_line(adapter)) for name, adapter in ADAPTERS.items()]


def _models() -> Lines:
    from metricopt.models import MODELS

    return [(name, _first_line(model)) for name, model in MODELS.items()]


def _data() -> Lines:
    from metricopt.data import DATASETS

    return [(name, _first_line(data)) for name, data in DATASETS.items()]


def _baselines() -> Lines:
    from metricopt.baselines import BASELINES

    return [(name, rival.about) for name, rival in BASELINES.items()]


def _problems() -> Lines:
    from metricopt.tasks import PROBLEMS

    return [(name, f"({problem.kind}) {problem.description}") for name, problem in PROBLEMS.items()]


def _experiments() -> Lines:
    from metricopt.experiments import EXPERIMENTS

    return [(name, experiment().about) for name, experiment in EXPERIMENTS.items()]


KINDS: dict[str, Callable[[], Lines]] = {
    "metrics": _metrics,
    "losses": _losses,
    "adapters": _adapters,
    "models": _models,
    "data": _data,
    "baselines": _baselines,
    "problems": _problems,
    "experiments": _experiments,
}
"""How to list each kind."""
