"""The command `metricopt`: demo, optimize, list, report, and what other packages add.

Nothing here imports torch: a command imports what it needs when it runs, so that `metricopt --help` is instant. A new
command is one new file of this package and one line below. Another distribution, such as the laboratory, adds its own
by an entry point of the group `metricopt.commands`: a function that is given the app.
"""

import os
import sys
from importlib.metadata import entry_points
from typing import Annotated

import typer

from metricopt import __version__
from metricopt.cli.demo import demo_command
from metricopt.cli.listing import list_command
from metricopt.cli.optimize import optimize_command
from metricopt.cli.report import report_command
from metricopt.core.errors import AdapterError, BudgetError, MetricOptError, UnknownNameError

app = typer.Typer(
    name="metricopt",
    help="Finetune a pre-trained PyTorch model until any black-box metric is better.\n\n"
    "Results go to stdout, progress to stderr. Exit codes: 0 done, 1 failed, 2 wrong usage or value.",
    epilog="Start with: metricopt demo --out demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.command("demo")(demo_command)
app.command("optimize")(optimize_command)
app.command("list")(list_command)
app.command("report")(report_command)
for _added in entry_points(group="metricopt.commands"):
    _added.load()(app)

_BAD_VALUES = (UnknownNameError, BudgetError, AdapterError)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; it may stand anywhere.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Options before the command; --debug is for `main`."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command and leave with its exit code: 0 done, 1 failed, 2 wrong usage or value.

    Example:
        >>> main(["--version"])
        Traceback (most recent call last):
        ...
        SystemExit: 0
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    # Before torch is imported: on shared cores its threads would spin while they wait, and networks as small as these
    # gain nothing from more than one.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        app([argument for argument in arguments if argument != "--debug"], prog_name="metricopt")
    except Exception as error:
        if "--debug" in arguments:
            raise
        known = isinstance(error, MetricOptError)
        typer.echo(f"metricopt: {error if known else _unexpected(error)}", err=True)
        sys.exit(2 if isinstance(error, _BAD_VALUES) else 1)


def _unexpected(error: Exception) -> str:
    return f"{type(error).__name__}: {error} (metricopt --debug ... shows where)"
