"""`metricopt demo`."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from metricopt.cli.output import Json, deliver, writable_folder

if TYPE_CHECKING:
    from metricopt.run.tensorboard import TensorBoardScalars


def demo_command(
    out: Annotated[
        Path, typer.Option(help="Folder for report.html, result.json and progress.png.", callback=writable_folder)
    ] = Path("demo"),
    queries: Annotated[int, typer.Option(help="Metric queries of each search, at least 10.")] = 200,
    seed: Annotated[int, typer.Option(help="Everything random depends on it alone.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a demo that was stopped in OUT.")] = False,
    log_dir: Annotated[
        Path | None,
        typer.Option(
            help="Folder for TensorBoard scalars of the first act; needs the package tensorboard.",
            callback=writable_folder,
        ),
    ] = None,
    json: Json = None,
) -> None:
    """Show what metricopt is for, and where a threshold does as well, in less than a minute.

    **Act 1**: a network learnt in one forest which of four trees grows where (UCI Covertype) and is used in another;
    its macro F1 there is improved. **Act 2**: a network learnt from a census who earns more than $50,000 (UCI Adult)
    and is used on the same population; F1. In both, metricopt and tuning of thresholds (a bias for each class) get the
    same rows and as many calls of the metric, and test rows that neither has seen compare them. The data come with the
    package.

    **OUT/result.json** holds metric, goal, before, after and the interval of the gain (test rows, natural units),
    accepted, queries, seconds, the same for threshold_tuning, the difference of the two methods with its interval,
    sizes, versions and seed, and all of it once more under second_act. **OUT/progress.png** draws both.
    **OUT/report.html** is one page about the first search, made from its events in **OUT/run**.

    Examples:

        metricopt demo

        metricopt demo --queries 100 --seed 3 --out runs/demo3 --json -
    """
    from metricopt.demo import demo, demo_text, write_demo
    from metricopt.run.progress import Progress

    with Progress("demo") as progress, ExitStack() as opened:
        watch = [] if log_dir is None else [opened.enter_context(_scalars(log_dir))]
        done = demo(queries=queries, seed=seed, out=out, resume=resume, progress=progress, watch=watch)
    written = write_demo(done, out)
    deliver(f"{demo_text(done)}\n{written}", done.to_dict(), json)


def _scalars(log_dir: Path) -> "TensorBoardScalars":
    from metricopt.run.tensorboard import TensorBoardScalars

    return TensorBoardScalars(log_dir)
