"""`metricopt bench quality`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from metricopt.cli.output import Json, deliver, writable_folder
from metricopt.core.errors import DataError
from metricopt_lab.cli.bench import bench_app

if TYPE_CHECKING:
    from metricopt_lab.cells import Run
    from metricopt_lab.quality import Quality


@bench_app.command("quality")
def quality_command(
    out: Annotated[
        Path, typer.Option(help="Folder of records, tables and plots; also what to resume.", callback=writable_folder)
    ],
    half: Annotated[
        str, typer.Option(help="development: may be looked at; final: to be measured once, when all is decided.")
    ] = "development",
    queries: Annotated[str, typer.Option(help="Budgets of metric calls, increasing.")] = "50,150,500,2000",
    seeds: Annotated[int, typer.Option(help="Number of seeds, from 0 on, or from 100 on of the final half.")] = 5,
    first_seed: Annotated[int, typer.Option(help="The first of the seeds, if some are to be left out.")] = 0,
    problems: Annotated[str, typer.Option(help="Names of problems; all of the half by default.")] = "",
    methods: Annotated[str, typer.Option(help="Names of methods; all by default.")] = "",
    workers: Annotated[int, typer.Option(min=1, help="Processes, each with one thread.")] = 2,
    summary_only: Annotated[bool, typer.Option("--summary-only", help="Tables and plots of what is there.")] = False,
    json: Json = None,
) -> None:
    """`optimize` against what people do anyway: same networks, rows and number of metric calls, judged on test rows.

    40 problems of five sources, half for development and half measured once. Where labels are visible the rivals
    finetune the real weights and tune biases; where they are hidden they search the same phi. One record a cell
    (problem, seed, method, budget) in OUT/quality_HALF.jsonl; a run that was stopped goes on where it was, and cells
    of a method that has another version by now are measured again. OUT/quality_HALF.md and two plots cover all records.

    CoverType and CIFAR-10 are downloaded once, or read from the folder that METRICOPT_DATA names; text is embedded by
    `metricopt embed`. A problem whose data are missing is skipped with a note.

    Examples:

        metricopt bench quality --seeds 3 --queries 150,500 --out runs/quality

        metricopt bench quality --out runs/quality --problems adult_aucpr --methods metricopt,finetune_bias
    """
    from metricopt_lab.cells.runner import render
    from metricopt_lab.quality import Quality, Settings

    budgets = _numbers(queries, "--queries")
    bench = Quality(Settings(half, budgets, seeds, _names(problems), _names(methods), first_seed))  # pyright: ignore[reportArgumentType]
    bench.cells()  # an unknown name is told before any work
    done = render(bench, out) if summary_only else _computed(bench, out, workers)
    _deliver(done, out / bench.name, json)
    _tell_failures(done)


def _computed(bench: "Quality", out: Path, workers: int) -> "Run":
    from metricopt.run.progress import Progress
    from metricopt_lab.cells import run

    with Progress("cells") as progress:

        def watch(count: int, total: int, last: str) -> None:
            progress.total = total
            progress.update(count, last)

        return run(bench, out, workers=workers, watch=watch)


def _deliver(done: "Run", files: Path, json: str | None) -> None:
    if not done.records:
        typer.echo(f"{files}.jsonl holds no cells of this benchmark", err=True)
        return
    written = f"All tables: {files}.md; plots: {files}-gain.svg, {files}-duels.svg"
    deliver(f"{done.text.rstrip()}\n\n{written}", done.records, json)


def _tell_failures(done: "Run") -> None:
    """Data that cannot be had cost a note; whatever else went wrong, the exit status."""
    missing = {str(failure.error): failure.key for failure in done.failures if isinstance(failure.error, DataError)}
    for error, key in missing.items():
        typer.echo(f"skipped {key.partition('__')[0]} and all others with these data: {error}", err=True)
    wrong = [failure for failure in done.failures if not isinstance(failure.error, DataError)]
    for failure in wrong:
        typer.echo(f"failed: {failure}", err=True)
    if wrong:
        raise typer.Exit(1)


def _numbers(text: str, option: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r} is no list of whole numbers; expected one such as 50,150", param_hint=option
        ) from error


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
