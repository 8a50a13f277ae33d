"""`metricopt bench speed`: what guidance, populations, caches and processes cost and save."""

from pathlib import Path
from typing import Annotated, Any

import typer

from metricopt.cli.output import Json, deliver, writable
from metricopt_lab.cli.bench import bench_app


@bench_app.command("speed")
def speed_command(
    figures: Annotated[str, typer.Option(help="Letters of figures, as in a,c; all by default.")] = "",
    repeats: Annotated[int, typer.Option(min=1, help="Rounds of each measurement.")] = 15,
    quick: Annotated[bool, typer.Option("--quick", help="Tiny sizes, only to see that everything runs.")] = False,
    page: Annotated[
        Path | None,
        typer.Option(dir_okay=False, callback=writable, help="Write the page about speed, in Markdown, to this file."),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Measure nothing; make text and page from this record."),
    ] = None,
    json: Json = None,
) -> None:
    """Ratios of running times, measured interleaved in this process, with medians, quartiles and targets."""
    from metricopt.core.writing import write_text
    from metricopt_lab.experiments.speed import page as text_of

    found = _measured(figures, repeats, quick) if record is None else _read(record)
    text = text_of(found)
    if page is not None:
        write_text(page, text)
    deliver(text, found, json)


def _measured(figures: str, repeats: int, quick: bool) -> dict[str, Any]:
    import torch

    from metricopt.run.progress import Progress
    from metricopt_lab.experiments.provenance import provenance
    from metricopt_lab.experiments.speed import Effort, run_figures
    from metricopt_lab.experiments.speed.profile import profiled

    effort = Effort(repeats, quick=quick)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    names = [part.strip() for part in figures.split(",") if part.strip()]
    with Progress("figures") as progress:

        def watch(count: int, total: int, last: str) -> None:
            progress.total = total
            progress.update(count, last)

        rows = run_figures(names, effort, watch=watch)
    shares = [] if names else profiled(effort)
    return {"provenance": {**provenance(), "rounds": repeats, "quick": quick}, "figures": rows, "profile": shares}


def _read(record: Path) -> dict[str, Any]:
    import json

    from metricopt.core.errors import FileFormatError

    try:
        found = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FileFormatError(f"{record} cannot be read ({error}); expected a record of bench speed --json") from error
    if not isinstance(found, dict) or not {"provenance", "figures", "profile"} <= set(found):
        raise FileFormatError(f"{record} is no record of the speed benchmark; expected one of bench speed --json")
    return found
