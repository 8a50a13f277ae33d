"""`metricopt docs`."""

from pathlib import Path
from typing import Annotated

import typer

from metricopt.cli.output import Json, deliver, writable_folder


def docs_command(
    results: Annotated[
        Path, typer.Option(exists=True, file_okay=False, help="Folder of the records, one file an experiment.")
    ] = Path("results"),
    out: Annotated[
        Path, typer.Option(help="Folder of the pages, with their introductions.", callback=writable_folder)
    ] = Path("docs"),
    json: Json = None,
) -> None:
    """Make the pages of numbers and their pictures from the records, in a checkout of the repository.

    A page is OUT/introductions/PAGE.md, written by hand, and what the records of its experiments make.

    Examples:

        metricopt docs
    """
    from metricopt_lab.docs import write_pages

    written = [str(path) for path in write_pages(results, out)]
    deliver("\n".join(written), written, json)
