"""The event log of a run: one JSON object a line, appended as things happen, readable while it is written.

Every line has `event` (its kind) and `time` (seconds since 1970). The kinds, in the order in which they appear:

- `start`: `settings`, `metric` (name, goal, on, bounds), `constraints`, `model` (fingerprint, adapter, dim), `data`
  (rows and fingerprint of each set), `versions`.
- `resume`: a killed run was taken up again, with `answered` queries that need not be paid a second time.
- `query`: `index` from 0, `stage`, `cost` in [0, 1], `value` in natural units, `phi`, and where there are any
  `failure` (why there is no answer; cost and value are null), `kept` (values of the constraints' metrics) and
  `violation` (by how much they are broken).
- `forecast`: `first` (index of the first query meant), `predicted` and `true` costs of the value function's proposals,
  and the `std` it gave them.
- `incumbent`: `index` of the query after which `phi` with `cost` became the best point.
- `trajectory`: paths of stage 1: `phi`, `loss`, `observed_steps`, `costs`, and interpolated `mean` and `std`.
- `health`: what the value function is worth on unseen paths, with its `predicted` and the `true` costs there.
- `embedding`: penultimate `features` of the value network at the observed phi, and their `costs`.
- `accepted`: the comparison on held-out data, whether it was `accepted`, the constraints there, and `changes` by class.
- `landscape`: the loss along the line from the original to the proposal.
- `result`: the numbers of the result, `proposal` and `phi` (what was kept), and `stopped` if it ended early.
- `rival` and `test`: written by the demo: another method's `name`, its best `values` and its `test` against the result;
  and the original against the result on test data.

Arrays are objects made by `metricopt.core.plain.packed`; `unpacked` gives them back.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, final

from metricopt.core.errors import FileFormatError
from metricopt.core.plain import plain
from metricopt.core.writing import unwritable

Event = dict[str, Any]
Listener = Callable[[Event], None]

NAME = "events.jsonl"
"""What the event log is called in the folder of a run."""


@final
class EventLog:
    """Appends events to a file and tells listeners of them; without a path, the listeners only.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with EventLog(Path(folder, NAME)) as log:
        ...         log.write("query", {"cost": 0.5}, sync=True)
        ...     [event["cost"] for event in read_events(Path(folder, NAME))]
        [0.5]
    """

    def __init__(self, path: Path | None, listeners: Sequence[Listener] = ()) -> None:
        """Open the file to append to; a line that a kill cut short is removed.

        Args:
            path: The file, made with its folder if missing.
            listeners: Called with each event after it was written.
        """
        self.path, self._listeners = path, tuple(listeners)
        self._file = None if path is None else _opened(path)

    def write(self, event: str, fields: Mapping[str, Any], *, sync: bool = False) -> None:
        """Append one event; it then survives the end of this process and, with `sync`, that of the machine."""
        entry = {"event": event, "time": time.time(), **fields}
        if self._file is not None:
            line = json.dumps(plain(entry), allow_nan=False)
            try:
                # One write a line: a kill leaves whole lines, and at worst one that is cut short.
                self._file.write(line.encode() + b"\n")
                self._file.flush()
                if sync:
                    os.fsync(self._file.fileno())
            except OSError as error:
                raise unwritable(Path(self._file.name), error) from error
        for listener in self._listeners:
            listener(entry)

    def close(self) -> None:
        """Close the file; nothing can be written any more."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> "EventLog":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_events(path: Path | str) -> list[Event]:
    """Events of a log, of a finished run or of one that is running: a last line cut short is left out.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, NAME)
        ...     _ = file.write_text('{"event": "start", "time": 0.0}\\n{"event": "que')
        ...     len(read_events(file))
        1
    """
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read ({error.strerror}); expected the event log of a run") from error
    lines = content.split(b"\n")[:-1]  # what follows the last line end is torn, or nothing
    return [_parsed(line, number, path) for number, line in enumerate(lines, start=1)]


def _opened(path: Path) -> BinaryIO:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab")
    except OSError as error:
        raise unwritable(path, error) from error
    try:
        _lock(file)
        content = path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            file.truncate(whole)
    except BaseException:
        file.close()
        raise
    return file


def _lock(file: BinaryIO) -> None:
    """Two runs in one folder would each take the other's answers for its own; a kill releases the lock."""
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise FileFormatError(
            f"another run is writing to {file.name}; expected one at a time: wait for it or choose another folder"
        ) from error


def _parsed(line: bytes, number: int, path: Path) -> Event:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"line {number} of {path} is damaged ({error}); expected one JSON object") from error
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        raise FileFormatError(f"line {number} of {path} is not an event; expected an object with a key 'event'")
    return event
