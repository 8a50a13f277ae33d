"""Where the command's results go: text to stdout, records to a file or to stdout for machines."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer


def writable(path: Path | None) -> Path | None:
    """The path, if it can be made or written to; wrong usage, found before any work is done, if not.

    Example:
        >>> str(writable(Path("runs/new")))
        'runs/new'
    """
    if path is None:
        return None
    whole = path.absolute()
    there = next(place for place in (whole, *whole.parents) if os.path.lexists(place))
    if there != whole and not there.is_dir():
        raise typer.BadParameter(f"{str(path)!r} cannot be made: {str(there)!r} is no folder; choose another place")
    if not os.access(there, os.W_OK):
        raise typer.BadParameter(f"{str(path)!r} cannot be written: no permission in {str(there)!r}; choose another")
    return path


def writable_folder(path: Path | None) -> Path | None:
    """Like `writable`, for what must be a folder."""
    if path is not None and path.exists() and not path.is_dir():
        raise typer.BadParameter(f"{str(path)!r} is a file; expected a folder, there or to be made")
    return writable(path)


def _writable_json(name: str | None) -> str | None:
    if name not in (None, "-"):
        if Path(name).is_dir():
            raise typer.BadParameter(f"{name!r} is a folder; expected a file to write to, or - for stdout")
        writable(Path(name))
    return name


Json = Annotated[
    str | None,
    typer.Option(
        "--json",
        metavar="FILE",
        help="Write the numbers as JSON to FILE; '-' for stdout, without the text.",
        callback=_writable_json,
    ),
]
"""The option --json, the same for every command."""


def deliver(text: str, data: Any, json: str | None) -> None:
    """Print the text, and write the data where --json says."""
    from metricopt.core.plain import as_json
    from metricopt.core.writing import write_json

    if json == "-":
        typer.echo(as_json(data))
        return
    typer.echo(text)
    if json is not None:
        write_json(Path(json), data)
