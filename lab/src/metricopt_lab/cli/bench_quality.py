"""`metricopt bench quality`: MetricOpt against its rivals at equal numbers of metric queries."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from metricopt.cli.output import Json, deliver, writable_folder
from metricopt_lab.cli.bench import bench_app

if TYPE_CHECKING:
    from metricopt_lab.cells import Run
    from metricopt_lab.quality import Quality


@bench_app.command("quality")
def quality_command(
    out: Annotated[
        Path,
        typer.Option(
            help="Folder of records, tables and plots; an interrupted run goes on there.", callback=writable_folder
        ),
    ],
    queries: Annotated[str, typer.Option(help="Budgets of metric queries, increasing.")] = "50,150,500",
    seeds: Annotated[int, typer.Option(help="Number of seeds.")] = 5,
    problems: Annotated[str, typer.Option(help="Names of problems; all by default.")] = "",
    methods: Annotated[str, typer.Option(help="Names of methods; all by default.")] = "",
    workers: Annotated[int, typer.Option(min=1, help="Processes, each with one thread.")] = 2,
    dim: Annotated[
        str, typer.Option(help="Size of FiLM's part of phi; several to compare, the first in tables.")
    ] = "32",
    recipe: Annotated[str, typer.Option(help="JSON of recipe fields for a variant of MetricOpt; needs --tag.")] = "",
    tag: Annotated[str, typer.Option(help="Name of the variant: run as metricopt@TAG, metricopt_labels@TAG.")] = "",
    summary_only: Annotated[bool, typer.Option("--summary-only", help="Tables and plots of what is there.")] = False,
    json: Json = None,
) -> None:
    """MetricOpt against its rivals: same networks, same seeds, same number of metric queries, judged on test data.

    One record a cell (problem, method, seed) in OUT/quality.jsonl. A run that was stopped goes on where it was; cells
    of a method whose version, recipe or budgets have changed are computed again. OUT/quality.md, quality-summary.json,
    quality-gain.png and quality-wins.png cover every cell in OUT. CoverType is downloaded once, or read from the folder
    that METRICOPT_DATA names.

    Examples:

        metricopt bench quality --seeds 3 --out runs/quality --json runs/quality.json

        metricopt bench quality --out runs/quality --recipe '{"whiten": false}' --tag raw --methods metricopt@raw

        metricopt bench quality --out runs/dims --problems covtype_shift_mcr --methods metricopt --dim 16,64,256
    """
    from metricopt_lab.cells.runner import render
    from metricopt_lab.quality import Quality, Settings
    from metricopt_lab.quality.settings import recipe_from_json

    settings = Settings(
        queries=_numbers(queries, "--queries"),
        seeds=seeds,
        problems=_names(problems),
        methods=_names(methods),
        dims=_numbers(dim, "--dim"),
        tag=tag,
        recipe=recipe_from_json(recipe),
    )
    bench = Quality(settings, out / "theta")
    bench.cells()  # an unknown name is told before any work
    done = render(bench, out) if summary_only else _computed(bench, out, workers)
    _deliver(done, out, json)
    for failure in done.failures:
        typer.echo(f"failed: {failure}", err=True)
    if done.failures:
        raise typer.Exit(1)


def _computed(bench: "Quality", out: Path, workers: int) -> "Run":
    from metricopt.run.progress import Progress
    from metricopt_lab.cells import run

    with Progress("cells") as progress:

        def watch(count: int, total: int, last: str) -> None:
            progress.total = total
            progress.update(count, last)

        return run(bench, out, workers=workers, watch=watch)


def _deliver(done: "Run", out: Path, json: str | None) -> None:
    from metricopt.core.writing import write_json
    from metricopt_lab.quality import summary_of
    from metricopt_lab.quality.rows import rows_of

    if not done.records:
        typer.echo(f"{out} holds no cells with these budgets", err=True)
        return
    write_json(out / "quality-summary.json", summary_of(done.records))
    head = done.text.partition("\n## Test metric by problem")[0].rstrip()
    written = f"All tables: {out / 'quality.md'}; plots: {out / 'quality-gain.png'}, {out / 'quality-wins.png'}"
    deliver(f"{head}\n\n{written}", rows_of(done.records), json)


def _numbers(text: str, option: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r} is no list of whole numbers; expected one such as 50,150", param_hint=option
        ) from error


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
