"""`metricopt optimize`: a job is a Python file whose names are the arguments of `metricopt.optimize`."""

import inspect
import os
import runpy
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from metricopt.cli.output import Json, deliver, writable_folder
from metricopt.core.errors import DataError, MetricOptError

NEEDED = ("net", "metric", "train", "val")
NOT_ACCEPTED = 3
"""Exit code of a run that came to its end and kept the original model."""


def optimize_command(
    job: Annotated[
        Path,
        typer.Argument(
            metavar="JOB", help="Python file that names net, metric, train, val and more.", exists=True, dir_okay=False
        ),
    ],
    queries: Annotated[int | None, typer.Option(min=1, help="Metric queries; else the job's own, or 300.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Calls of the metric at the same time.")] = None,
    seed: Annotated[int | None, typer.Option(help="Everything random depends on it alone.")] = None,
    run_dir: Annotated[
        Path | None,
        typer.Option(help="Folder of the run; runs/ and the job's name by default.", callback=writable_folder),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in RUN_DIR.")] = False,
    report: Annotated[bool, typer.Option("--report", help="Write RUN_DIR/report.html too.")] = False,
    json: Json = None,
) -> None:
    """Improve the model of a job file, and keep what was found in RUN_DIR.

    The file is run as it is; its names **net**, **metric**, **train** and **val** are taken, and every other argument
    of `metricopt.optimize` that it names: **loss**, **keep**, **holdout**, **tune** and so on. Options here come before
    names there. `metricopt.load_result(RUN_DIR, net, metric)` gives the result back.

    Exit codes: 0 a better model was accepted, 3 none was and the original is kept, 1 failed, 2 wrong usage or value.

    Examples:

        metricopt optimize my_job.py --queries 200 --workers 8 --report

        metricopt optimize my_job.py --run-dir runs/mine --resume --json -
    """
    from metricopt.api.optimize import optimize

    folder = Path("runs", job.stem) if run_dir is None else run_dir
    given = {"queries": queries, "workers": workers, "seed": seed}
    arguments = {**named(job), **{name: value for name, value in given.items() if value is not None}}
    arguments |= {"run_dir": folder, "resume": resume}
    result = optimize(arguments.pop("net"), **arguments)
    written = f"Written: {folder}"
    if report:
        written = f"Written: {result.report(folder / 'report.html')}"
    deliver(f"{result}\n{written}", {**result.to_dict(), "run_dir": str(folder)}, json)
    if not result.accepted:
        raise typer.Exit(NOT_ACCEPTED)


def named(job: Path) -> dict[str, Any]:
    """The arguments of `optimize` that a job file names.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "job.py")
        ...     _ = file.write_text("import math\\nnet = metric = train = val = 1\\nseed = 3")
        ...     sorted(named(file))
        ['metric', 'net', 'seed', 'train', 'val']
    """
    from metricopt.api.optimize import optimize

    known = inspect.signature(optimize).parameters
    names = {name: value for name, value in _run(job).items() if name in known}
    missing = [name for name in NEEDED if name not in names]
    if missing:
        raise DataError(
            f"{job} names no {', no '.join(missing)}; expected {', '.join(NEEDED)} and what else metricopt.optimize "
            f"takes: assign them at the top level of the file"
        )
    return names


def _run(job: Path) -> dict[str, Any]:
    # As if it were run by `python job.py`: what lies beside it can be imported.
    sys.path.insert(0, os.fspath(job.absolute().parent))
    try:
        return runpy.run_path(os.fspath(job), run_name="metricopt_job")
    except MetricOptError:
        raise
    except Exception as error:
        place = _line_of(error, job)
        raise DataError(
            f"{job}{place} raised {type(error).__name__}: {error}; expected a file that runs: "
            f"try python {job}, or metricopt --debug"
        ) from error
    finally:
        sys.path.remove(os.fspath(job.absolute().parent))


def _line_of(error: Exception, job: Path) -> str:
    """Where in the job an error came from."""
    trace, found = error.__traceback__, ""
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == os.fspath(job):
            found = f", line {trace.tb_lineno},"
        trace = trace.tb_next
    return found
