"""A run's numbers for TensorBoard, written as its events happen."""

import math
from pathlib import Path
from typing import Any, final

from metricopt.core.errors import FileFormatError
from metricopt.run.events import Event
from metricopt.run.live import Standing


@final
class TensorBoardScalars:
    """Writes each answer, the best so far, failures and the value function's health over queries.

    Give it to `optimize(..., watch=[...])`; `tensorboard --logdir FOLDER` then shows the curves, also while it runs.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:  # doctest: +SKIP
        ...     with TensorBoardScalars(folder) as scalars:
        ...         result = optimize(net, ..., watch=[scalars])
    """

    def __init__(self, folder: Path | str) -> None:
        """Open the log.

        Args:
            folder: Where TensorBoard will look for it; made if missing.
        """
        self._standing = Standing()
        self._writer = _writer(Path(folder))

    def __call__(self, event: Event) -> None:
        """Take in one event and write what it changes."""
        self._standing.hear(event)
        for tag, value in self._changed(event).items():
            if math.isfinite(value):
                self._writer.add_scalar(tag, value, self._standing.made)
        if event["event"] in ("accepted", "result"):
            self._writer.flush()

    def _changed(self, event: Event) -> dict[str, float]:
        now, kind = self._standing, event["event"]
        if kind == "query":
            value = event.get("value")
            answer = math.nan if value is None else value
            return {"metric/answer": answer, "metric/best": now.best, "queries/failed": float(now.failed)}
        if kind in ("forecast", "health"):
            return {"value/rank_correlation": now.health}
        if kind == "accepted":
            return {"held_out/before": event["before"], "held_out/after": event["after"]}
        return {}

    def close(self) -> None:
        """Close the log."""
        self._writer.close()

    def __enter__(self) -> "TensorBoardScalars":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _writer(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ModuleNotFoundError(
            "the package tensorboard is not installed; it is needed to write a log for TensorBoard: "
            "pip install 'metricopt-torch[tensorboard]'"
        ) from error
    try:
        return SummaryWriter(str(folder))
    except OSError as error:
        raise FileFormatError(
            f"{folder} cannot be written ({error.strerror or error}); expected a folder for TensorBoard's log: "
            f"choose another"
        ) from error
