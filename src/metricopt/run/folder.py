"""Where a run keeps its files."""

from pathlib import Path

from metricopt.core.errors import FileFormatError


def run_folder(run_dir: Path | str | None) -> Path | None:
    """The folder of a run as an absolute path: a metric that changes the working folder must not move its files.

    Example:
        >>> run_folder("runs/mine") == Path.cwd() / "runs" / "mine", run_folder(None)
        (True, None)
    """
    if run_dir is None:
        return None
    try:
        return Path(run_dir).absolute()
    except (TypeError, OSError) as error:
        raise FileFormatError(f"run_dir is {run_dir!r} ({error}); expected the path of a folder") from error
