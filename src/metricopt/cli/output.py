"""Where the command's results go: text to stdout, records to a file or to stdout for machines."""

from pathlib import Path
from typing import Annotated, Any

import typer

Json = Annotated[
    str | None,
    typer.Option("--json", metavar="FILE", help="Write the numbers as JSON to FILE; '-' for stdout, without the text."),
]
"""The option --json, the same for every command."""


def deliver(text: str, data: Any, json: str | None) -> None:
    """Print the text, and write the data where --json says."""
    from metricopt.experiments.store import as_json, write_json

    if json == "-":
        typer.echo(as_json(data))
        return
    typer.echo(text)
    if json is not None:
        write_json(Path(json), data)
