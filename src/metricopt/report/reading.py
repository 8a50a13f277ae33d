"""From the event log of a run to its record; what is damaged or not yet there is said, not raised."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from metricopt.core.errors import FileFormatError
from metricopt.core.plain import unpacked
from metricopt.core.sealed import unsealed
from metricopt.report.run import Array, Landscape, Run, Trajectories
from metricopt.report.words import plural
from metricopt.run.events import NAME, Event

_ABSURD = 1e12
"""Numbers from here on come from damage, not from a run."""


def read_run(folder: Path | str) -> Run:
    """The run whose folder this is (or whose event log), finished, running, or damaged.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, NAME).write_text('{"event": "query", "stage": "start", "cost": 0.25}\\n{"eve')
        ...     run = read_run(folder)
        >>> run.costs.tolist(), run.missing[0]
        ([0.25], 'The first event (settings, versions, data) is missing.')
    """
    path = _log_of(Path(folder))
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FileFormatError(
            f"{path} cannot be read ({error.strerror}); expected the folder of a run with {NAME} in it: "
            f"name the folder that the run was told to write to"
        ) from error
    events, damaged = _parsed(content)
    if not events:
        raise FileFormatError(f"{path} has no readable event; expected the event log of a run, one JSON object a line")
    notes = [f"{plural(damaged, 'line')} of the event log could not be read."] if damaged else []
    return run_of(events, notes=notes)


def _log_of(path: Path) -> Path:
    """The event log in a folder of a run, or in the folder `run` there, where the demo keeps it."""
    if not path.is_dir():
        return path
    return path / "run" / NAME if (path / "run" / NAME).exists() and not (path / NAME).exists() else path / NAME


def run_of(events: Sequence[Event], *, notes: Sequence[str] = ()) -> Run:
    """The record of a run from its events.

    Example:
        >>> start = {"event": "start", "metric": {"name": "f1", "goal": "max"}}
        >>> run_of([start, {"event": "query", "index": 0, "stage": "start", "cost": 0.4}]).best.tolist()
        [0.6]
    """
    events = [_drawable(event) for event in events]
    queries = _queries(events)
    order = {index: place for place, index in enumerate(queries)}
    start, result = _last(events, "start"), _last(events, "result")
    rows = list(queries.values())
    return Run(
        start=start,
        stages=tuple(str(row.get("stage", "query")) for row in rows),
        costs=np.array([_cost(row.get("cost")) for row in rows]),
        answers=np.array([_number(row.get("value")) for row in rows]),
        points=_points(rows),
        forecasts=_forecasts(events, order),
        failures={place: str(row["failure"]) for place, row in enumerate(rows) if row.get("failure")},
        violations=np.array([np.nan_to_num(_number(row.get("violation", 0.0))) for row in rows]),
        parts=np.array([bool(row.get("part")) for row in rows], dtype=bool),
        times=np.array([_number(row.get("time")) for row in rows]) - _number(start.get("time")),
        incumbents=tuple(order[i] for i in _incumbents(events, queries) if i in order),
        health=tuple(event for event in events if event["event"] == "health"),
        accepted=_last(events, "accepted"),
        test=_last(events, "test"),
        result=result,
        rivals={str(each.get("name")): _array(each.get("values")) for each in events if each["event"] == "rival"},
        beside={
            str(each.get("name")): each["test"]
            for each in events
            if each["event"] == "rival" and isinstance(each.get("test"), Mapping)
        },
        trajectories=_trajectories(_last(events, "trajectory")),
        embedding=_embedding(_last(events, "embedding")),
        unseen=_unseen(_last(events, "health")),
        landscape=_landscape(_last(events, "landscape")),
        proposal=_proposal(result),
        missing=(*notes, *_gaps(events, list(queries))),
    )


def _parsed(content: bytes) -> tuple[list[Event], int]:
    """Readable events and how many lines were not; a last line without its end is still being written."""
    events, damaged = [], 0
    for line in content.split(b"\n")[:-1]:
        try:
            event = unsealed(line).record
        except FileFormatError:
            event = {}
        if isinstance(event.get("event"), str):
            events.append(event)
        else:
            damaged += 1
    return events, damaged


def _drawable(value: Any) -> Any:
    """The same data without whole numbers that no float can hold: figures and tables would break on them."""
    if isinstance(value, dict):
        return {key: _drawable(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_drawable(each) for each in value]
    return None if isinstance(value, int) and abs(value) > 2**63 else value


def _queries(events: Sequence[Event]) -> dict[int, Event]:
    """Queries by their number, in its order; the later entry counts where a resumed run wrote one again."""
    found: dict[int, Event] = {}
    for event in events:
        if event["event"] == "query":
            index = event.get("index")
            found[index if isinstance(index, int) else len(found)] = event
    return dict(sorted(found.items()))


def _last(events: Sequence[Event], kind: str) -> Mapping[str, Any]:
    return next((event for event in reversed(events) if event["event"] == kind), {})


def _incumbents(events: Sequence[Event], queries: Mapping[int, Event]) -> list[int]:
    """Numbers of the queries that became the best point; an entry is made after a batch, of which one is meant."""
    found = []
    for event in events:
        last = event.get("index")
        if event["event"] == "incumbent" and isinstance(last, int):
            phi = _array(event.get("phi"))
            batch = [i for i in range(last, max(last - 50, -1), -1) if i in queries]
            found.append(next((i for i in batch if np.array_equal(_array(queries[i].get("phi")), phi)), last))
    return found


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and abs(value) < _ABSURD else float("nan")


def _cost(value: Any) -> float:
    cost = _number(value)
    return cost if 0 <= cost <= 1 else float("nan")


def _array(data: Any) -> Array:
    """Numbers from a list or a packed array, NaN where there is none; empty where that is not possible."""
    try:
        if isinstance(data, Tensor):
            found = data.detach().cpu().double().numpy()
        elif isinstance(data, Mapping):
            found = unpacked(data).double().numpy()
        else:
            found = np.array(data, dtype=float)  # None becomes NaN
    except (FileFormatError, TypeError, ValueError, OverflowError):
        return np.zeros(0)
    return np.where(np.abs(found) < _ABSURD, found, np.nan) if found.ndim else np.zeros(0)


def _points(rows: Sequence[Event]) -> Array:
    """phi of every query, or none at all where one lacks it: half a picture would mislead."""
    points = [_array(row.get("phi")) for row in rows]
    alike = points and points[0].ndim == 1 and points[0].size and all(each.shape == points[0].shape for each in points)
    known = alike and all(np.isfinite(each).all() for each in points)
    return np.stack(points) if known else np.zeros((0, 0))


def _proposal(result: Mapping[str, Any]) -> Array | None:
    found = _array(result.get("proposal"))
    return found if found.ndim == 1 and found.size and np.isfinite(found).all() else None


def _forecasts(events: Sequence[Event], order: Mapping[int, int]) -> Array:
    rows = []
    for event in events:
        first, predicted = event.get("first"), _array(event.get("predicted"))
        if event["event"] != "forecast" or not isinstance(first, int) or predicted.ndim != 1:
            continue
        std = _array(event.get("std"))
        std = std if std.shape == predicted.shape else np.full(predicted.shape, np.nan)
        rows += [
            (order[first + i], mean, deviation)
            for i, (mean, deviation) in enumerate(zip(predicted, std, strict=True))
            if first + i in order
        ]
    return np.array(rows, dtype=float).reshape(-1, 3)


def _trajectories(event: Mapping[str, Any]) -> Trajectories | None:
    steps, costs, mean, std = (_array(event.get(name)) for name in ("observed_steps", "costs", "mean", "std"))
    if not (mean.ndim == steps.ndim == 2 and costs.shape == steps.shape and std.shape == mean.shape):
        return None
    usable = np.isfinite(costs).sum(1) >= 2  # the others were not interpolated
    if usable.sum() != len(mean):
        return None
    return Trajectories(steps[usable], costs[usable], mean, std)


def _embedding(event: Mapping[str, Any]) -> tuple[Array, Array] | None:
    features, costs = _array(event.get("features")), _array(event.get("costs"))
    whole = (
        features.ndim == 2 and costs.shape == features.shape[:1] and features.shape[1] and np.isfinite(features).all()
    )
    return (features, costs) if whole else None


def _unseen(event: Mapping[str, Any]) -> tuple[Array, Array] | None:
    predicted, costs = _array(event.get("predicted")), _array(event.get("true"))
    return (predicted, costs) if predicted.ndim == 1 and len(costs) and predicted.shape == costs.shape else None


def _landscape(event: Mapping[str, Any]) -> Landscape | None:
    shares, loss = _array(event.get("shares")), _array(event.get("loss"))
    whole = shares.ndim == 1 and len(shares) > 1 and shares.shape == loss.shape and np.isfinite(shares + loss).all()
    return Landscape(shares, loss) if whole else None


def _gaps(events: Sequence[Event], numbers: Sequence[int]) -> list[str]:
    """What a whole log would have and this one lacks."""
    kinds = {event["event"] for event in events}
    found = []
    if "start" not in kinds:
        found.append("The first event (settings, versions, data) is missing.")
    lacking = (numbers[-1] + 1 - len(numbers)) if numbers else 0
    if lacking:
        found.append(f"Not in the log, though later ones are: {plural(lacking, 'query', 'queries')}.")
    if not numbers:
        found.append("No query was answered yet.")
    if "result" not in kinds:
        found.append("There is no result yet: the run is going on, or it was interrupted.")
    elif "accepted" not in kinds:
        found.append("There is a result but no comparison on held-out data.")
    return found
