"""`metricopt shelve`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from metricopt.cli.output import Json, deliver
from metricopt.core.errors import DataError
from metricopt.core.registry import one_of


def shelve_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A source in metricopt_lab/studies/shelf/sources.py.")],
    results: Annotated[
        Path, typer.Option(exists=True, file_okay=False, help="Folder of the records of `metricopt run shelf`.")
    ] = Path("results"),
    out: Annotated[Path | None, typer.Option(help="Folder of the shelf; metricopt's own by default.")] = None,
    scale: Annotated[str, typer.Option(help="smoke, small or paper: that of the records.")] = "small",
    json: Json = None,
) -> None:
    """Put a value function on the shelf, for `optimize(value="NAME")`: its file, and a row of what it saves elsewhere.

    It is learnt anew, by one search, and what it saves is taken from the records; without some it stays off the shelf.

    Examples:

        metricopt run shelf --out results

        metricopt shelve ranking_of_incomes
    """
    from metricopt.search.transfer.shelf import SHELF, put_on_shelf
    from metricopt_lab.cells import Store
    from metricopt_lab.studies.shelf.sources import SOURCES, learnt
    from metricopt_lab.studies.shelf.text import measured

    one_of(name, tuple(SOURCES), what="source")
    records = [record for record in Store(results / "shelf.jsonl").values() if record["scale"] == scale]
    words = measured(records, name)
    if not words:
        raise DataError(
            f"{results / 'shelf.jsonl'} has no records of {name} at scale {scale}; expected what it saves elsewhere: "
            f"run `metricopt run shelf --out {results}` first"
        )
    entry = put_on_shelf(learnt(name, scale), name, about=SOURCES[name].about, measured=words, folder=out or SHELF)
    deliver(f"{entry.name}: {entry.about}\n{entry.measured}", asdict(entry), json)
