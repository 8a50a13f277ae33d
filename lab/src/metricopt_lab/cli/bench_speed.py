"""`metricopt bench speed`: what guidance, populations, caches and processes cost and save."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from metricopt.cli.output import Json, deliver, writable, writable_folder
from metricopt_lab.cli.bench import bench_app

if TYPE_CHECKING:
    from metricopt_lab.cells import Record


@bench_app.command("speed")
def speed_command(
    figures: Annotated[str, typer.Option(help="Letters of figures, as in a,c; all by default.")] = "",
    repeats: Annotated[int, typer.Option(min=1, help="Rounds of each measurement.")] = 15,
    quick: Annotated[bool, typer.Option("--quick", help="Tiny sizes, only to see that everything runs.")] = False,
    page: Annotated[
        Path | None,
        typer.Option(dir_okay=False, callback=writable, help="Write the page about speed, in Markdown, to this file."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Keep the records in OUT/speed.jsonl; figures that are not measured now stay as they are.",
            callback=writable_folder,
        ),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Measure nothing; make text and page from this speed.jsonl."),
    ] = None,
    json: Json = None,
) -> None:
    """Ratios of running times, measured interleaved in this process, with medians, quartiles and targets."""
    from metricopt.core.writing import write_text
    from metricopt_lab.speed import page as text_of

    if record is not None and out is not None:
        raise typer.BadParameter("nothing is measured with --record; leave one of the two out", param_hint="--out")
    records = _measured(figures, repeats, quick) if record is None else _read(record)
    if out is not None:
        records = _kept(records, out / "speed.jsonl")
    text = text_of(records)
    if page is not None:
        write_text(page, text)
    deliver(text, records, json)


def _measured(figures: str, repeats: int, quick: bool) -> "list[Record]":
    import torch

    from metricopt.run.progress import Progress
    from metricopt_lab.speed import Effort, measure_speed

    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    names = [part.strip() for part in figures.split(",") if part.strip()]
    with Progress("figures") as progress:

        def watch(count: int, total: int, last: str) -> None:
            progress.total = total
            progress.update(count, last)

        return measure_speed(names, Effort(repeats, quick=quick), watch=watch)


def _kept(records: "list[Record]", path: Path) -> "list[Record]":
    """All records of the file, these among them."""
    from metricopt_lab.cells import Store

    store = Store(path)
    for record in records:
        store.append(record)
    store.sort()
    return list(store.values())


def _read(path: Path) -> "list[Record]":
    from metricopt.core.errors import FileFormatError
    from metricopt_lab.cells import Store

    records = list(Store(path).values())
    if not records or not all({"figures", "shares"} & set(record) and "versions" in record for record in records):
        raise FileFormatError(
            f"{path} has no records of the speed benchmark; expected a speed.jsonl of bench speed --out"
        )
    return records
