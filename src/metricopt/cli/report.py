"""`metricopt report`."""

from pathlib import Path
from typing import Annotated

import typer

from metricopt.cli.output import writable


def report_command(
    run_dir: Annotated[
        Path,
        typer.Argument(metavar="RUN_DIR", help="Folder of a run, finished or still running.", exists=True),
    ],
    out: Annotated[
        Path | None, typer.Option(help="File of the page; by default RUN_DIR/report.html.", callback=writable)
    ] = None,
) -> None:
    """Write one self-contained HTML page about a run: the answer first, then pictures, tables and settings.

    It reads RUN_DIR/events.jsonl (or RUN_DIR/run/events.jsonl, where the demo keeps it) and needs no network. A run
    that is going on or was interrupted gives a page of what there is, and the page says what is missing.

    Examples:

        metricopt report demo

        metricopt report runs/mine --out report.html
    """
    from metricopt.report import read_run, write_report

    path = write_report(read_run(run_dir), run_dir / "report.html" if out is None else out)
    typer.echo(f"Written: {path}")
