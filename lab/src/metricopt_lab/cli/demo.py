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
    queries: Annotated[int, typer.Option(help="Metric queries that each method may spend, at least 10.")] = 300,
    seed: Annotated[int, typer.Option(help="Everything random depends on it alone.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a demo that was stopped in OUT.")] = False,
    log_dir: Annotated[
        Path | None,
        typer.Option(help="Folder for TensorBoard scalars; needs the package tensorboard.", callback=writable_folder),
    ] = None,
    json: Json = None,
) -> None:
    """Improve the F1 of a census-income classifier, beside threshold tuning, in less than a minute.

    The data (UCI Adult, encoded as LIBSVM's A9A) come with the package. The paper's network (MLP 100-30-10-1) is
    trained by plain cross-entropy on 70% of the rows. MetricOpt and threshold tuning then query F1 on the same 5%,
    another 5% decides whether a result is kept, and 20% test rows, used once, say what it is worth.

    **OUT/result.json** holds metric, goal, before, after and the interval of the gain (test data, natural
    units), accepted, queries, seconds, the same for threshold_tuning, held-out numbers, sizes, versions, seed and the
    fingerprint of the data. **OUT/progress.png** draws F1 over queries. **OUT/report.html** is one page to look at or
    to send, made from the events of the search in **OUT/run**.

    Examples:

        metricopt demo

        metricopt demo --queries 100 --seed 3 --out runs/demo3 --json -
    """
    from metricopt.run.progress import Progress
    from metricopt_lab.demo.demo import demo, write_demo
    from metricopt_lab.demo.text import demo_text

    with Progress("demo") as progress, ExitStack() as opened:
        watch = [] if log_dir is None else [opened.enter_context(_scalars(log_dir))]
        done = demo(queries=queries, seed=seed, progress=progress, run_dir=out / "run", resume=resume, watch=watch)
    write_demo(done, out)
    text = f"{demo_text(done)}\nWritten: {out / 'report.html'}, {out / 'result.json'}, {out / 'progress.png'}"
    deliver(text, done.to_dict(), json)


def _scalars(log_dir: Path) -> "TensorBoardScalars":
    from metricopt.run.tensorboard import TensorBoardScalars

    return TensorBoardScalars(log_dir)
