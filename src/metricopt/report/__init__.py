"""From the records of a run to one self-contained HTML page; it knows records and events, never the method."""

from pathlib import Path

from metricopt.core.errors import FileFormatError
from metricopt.core.writing import write_text
from metricopt.report.page import page
from metricopt.report.reading import read_run, run_of
from metricopt.report.run import Run

__all__ = ["Run", "page", "read_run", "run_of", "write_report"]


def write_report(run: Run, path: Path | str) -> Path:
    """Write the page of a run to a file that appears only once it is complete.

    Example:
        >>> import tempfile
        >>> run = run_of([{"event": "query", "stage": "start", "cost": 0.5}])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_report(run, Path(folder, "out", "report.html")).stat().st_size < 2_000_000
        True
    """
    path = Path(path)
    if path.is_dir():
        raise FileFormatError(f"{path} is a folder; expected a file to write the report to: name one, as report.html")
    write_text(path, page(run))
    return path
