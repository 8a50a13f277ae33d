"""Measures the cells of one job, in whichever process this is."""

import pickle
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from metricopt.core.errors import MetricOptError
from metricopt_lab.cells.experiment import Experiment, Record
from metricopt_lab.cells.provenance import provenance


@dataclass(frozen=True)
class Failure:
    """A cell that could not be measured.

    Attributes:
        key: Name of the cell.
        error: What was raised.
        trace: Where, for an error that nobody foresaw.
    """

    key: str
    error: Exception
    trace: str

    def __str__(self) -> str:
        return f"{self.key}: {self.error if isinstance(self.error, MetricOptError) else self.trace}"


def measured(experiment: Experiment[Any, Any], cells: Sequence[Any]) -> Iterator[Record | Failure]:
    """A record, or why there is none, for each cell of one job.

    One that fails does not take the others' hours with it.
    """
    began = _clocks()
    try:
        ground = experiment.ground(cells[0])
    except Exception as error:
        yield from (_failure(cell.key, error) for cell in cells)
        return
    for cell in cells:
        try:
            figures = experiment.measure(ground, cell)
        except Exception as error:
            yield _failure(cell.key, error)
        else:
            # The first cell also bears the time for the ground, so that the sum is all there was.
            taken = [now - before for now, before in zip(_clocks(), began, strict=True)]
            yield {
                "key": cell.key,
                **experiment.made_by(cell),
                **asdict(cell),
                **figures,
                "took": {"seconds": taken[0], "cpu_seconds": taken[1]},
                "versions": provenance(),
            }
        began = _clocks()


def _clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _failure(key: str, error: Exception) -> Failure:
    trace = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever an error holds that cannot travel between processes
        error = MetricOptError(f"{type(error).__name__}: {error}")
    return Failure(key, error, trace)
