"""The event log of a run: one JSON object a line, appended as things happen, readable while it is written.

Every line has `event` (its kind) and `time` (seconds since 1970), and ends with `crc32`, a checksum of all before it.
Logs of metricopt 0.1, whose lines have none, are read as they are; they cannot be resumed. The kinds, in the order in
which they appear:

- `start`: `settings`, `metric` (name, goal, on, bounds, function), `constraints`, `model` (fingerprint, adapter, dim),
  `data` (rows and fingerprint of each set), `versions`.
- `resume`: a killed run was taken up again, with `answered` queries that need not be paid a second time.
- `plan`: what the run will cost at most, before the first call and once more when calls were timed: `lines` (phase,
  calls, kind), `calls` in all, what the metric is `given`, the `loss`, `notes`, and about how many `seconds`.
- `phase`: for those who watch, never written: which `phase` the run is in, and how much of the `total` is `done`.
- `query`: `index` from 0, `stage`, `cost` in [0, 1], `value` in natural units, `phi`, and where there are any
  `failure` (why there is no answer; cost and value are null), `kept` (values of the constraints' metrics),
  `violation` (by how much they are broken) `extra` (further attempts of a metric outside, less what it remembered)
  and `part` (it is about some of the rows only).
- `forecast`: `first` (index of the first query meant), `predicted` and `true` costs of the value function's proposals,
  and the `std` it gave them.
- `transfer`: what another search has taught was tried: `said` (pairs of a forecast and the answer), whether it `holds`,
  and `why` not.
- `asked`: `values` of metric calls beyond the queries (noise, decision), under the `key` they are recalled by, with
  `extra` and the `seconds` they took; also what was decided by a clock (rows at the same time, steps of finetuning).
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

import functools
import os
import sys
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from io import FileIO
from pathlib import Path
from typing import Any, final

from metricopt.core.errors import FileFormatError
from metricopt.core.sealed import Line, sealed, unsealed
from metricopt.core.writing import unwritable, write_all

Event = dict[str, Any]
Listener = Callable[[Event], None]

NAME = "events.jsonl"
"""What the event log is called in the folder of a run."""

_BEGINNING = b'{"event": "'  # of every line, also of one that a kill cut short
_OPEN: "weakref.WeakSet[EventLog]" = weakref.WeakSet()  # of this process, for its forks to close


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
        """Open the file to append to, for this process alone; a line that a kill cut short is removed.

        Args:
            path: The file, made with its folder if missing.
            listeners: Called with each event after it was written.
        """
        self.path, self._listeners = path, tuple(listeners)
        self._file = None if path is None else _opened(path)
        if self._file is not None:
            _close_in_forks()
            _OPEN.add(self)

    def write(self, event: str, fields: Mapping[str, Any], *, sync: bool = False) -> None:
        """Append one event; it then survives the end of this process and, with `sync`, that of the machine."""
        entry = {"event": event, "time": time.time(), **fields}
        if self._file is not None:
            try:
                # One write a line: a kill leaves whole lines, and at worst one that is cut short.
                write_all(self._file, sealed(entry))
                if sync:
                    os.fsync(self._file.fileno())
            except OSError as error:
                raise unwritable(Path(str(self._file.name)), error) from error
        self._heard(entry)

    def tell(self, event: str, fields: Mapping[str, Any]) -> None:
        """Tell the listeners alone."""
        self._heard({"event": event, "time": time.time(), **fields})

    def _heard(self, entry: Event) -> None:
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
    *lines, torn = content.split(b"\n")
    _check_torn(torn, path)
    found = [_parsed(line, number, path) for number, line in enumerate(lines, start=1)]
    bare = next((number for number, line in enumerate(found, start=1) if line.sealed != found[0].sealed), None)
    if bare is not None:
        raise FileFormatError(f"line {bare} of {path} is damaged (no checksum); expected one, as in its first line")
    return [line.record for line in found]


def has_checksums(path: Path) -> bool:
    """Whether a log is one whose lines carry checksums; an empty one would be.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, NAME).write_text('{"event": "start"}\\n')
        ...     has_checksums(Path(folder, NAME))
        False
    """
    with path.open("rb") as file:
        first = file.readline()
    return not first.endswith(b"\n") or _parsed(first[:-1], 1, path).sealed


def _opened(path: Path) -> FileIO:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Unbuffered, so that nothing is left over that closing it would try to write again.
        file = path.open("ab", buffering=0)
    except OSError as error:
        raise unwritable(path, error) from error
    try:
        _lock(file)
        _cut_torn_line(file, path)
    except OSError as error:
        file.close()
        raise unwritable(path, error) from error
    except BaseException:
        file.close()
        raise
    return file


def _cut_torn_line(file: FileIO, path: Path) -> None:
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    torn = content[whole:]
    _check_torn(torn, path)
    if torn:
        file.truncate(whole)


def _check_torn(torn: bytes, path: Path) -> None:
    """What follows the last line end is nothing, or the beginning of an event: being written, or cut short."""
    if not (torn.startswith(_BEGINNING) or _BEGINNING.startswith(torn)):
        raise FileFormatError(
            f"{path} ends with {torn[:40]!r}, which is no event; expected the event log of a run: choose another folder"
        )


@functools.cache
def _close_in_forks() -> None:
    """From now on forks of this process let go of its logs, which they would keep locked as long as they live."""
    if sys.platform != "win32":
        os.register_at_fork(after_in_child=lambda: [log.close() for log in _OPEN])


def _lock(file: FileIO) -> None:
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


def _parsed(line: bytes, number: int, path: Path) -> Line:
    try:
        found = unsealed(line)
    except FileFormatError as error:
        raise FileFormatError(f"line {number} of {path} is damaged ({error}); expected one JSON object") from error
    if not isinstance(found.record.get("event"), str):
        raise FileFormatError(f"line {number} of {path} is not an event; expected an object with a key 'event'")
    return found
