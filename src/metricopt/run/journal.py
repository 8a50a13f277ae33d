"""The memory of a run: answers already paid for are read back, so that a killed run goes on where it was.

A search is a function of its seed and of the metric's answers. Resuming is therefore running again: the n-th query is
answered from the journal as long as it asks about the very same phi, bit for bit, and by the metric from then on.
"""

import json
import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, final

from torch import Tensor

from metricopt.core.errors import FileFormatError
from metricopt.core.plain import packed, plain, unpacked
from metricopt.core.writing import remove_drafts
from metricopt.run.events import NAME, Event, EventLog, Listener, has_checksums, read_events

_FLEETING = ("time", "seconds", "answered")  # differ from run to run of the same search


class Asked(NamedTuple):
    """Answers beyond the queries, by how many calls they differ from those planned, and how long they took."""

    values: list[float | None]
    extra: int
    seconds: float


@final
class Journal:
    """Writes events, and recalls those of the run it continues.

    Attributes:
        spent: Seconds that the run it continues had taken.

    Example:
        >>> import tempfile, torch
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with open_journal(Path(folder), {"seed": 0}) as journal:
        ...         journal.query(0, torch.ones(2), {"cost": 0.25})
        ...     with open_journal(Path(folder), {"seed": 0}, resume=True) as journal:
        ...         journal.recall(0, torch.ones(2))["cost"], journal.recall(1, torch.ones(2))
        (0.25, None)
    """

    def __init__(self, log: EventLog, before: Sequence[Event] = ()) -> None:
        """Continue a run that left the events `before`."""
        self._log = log
        self._answers = {_index(event): event for event in before if event["event"] == "query"}
        self._places = {index: place for place, index in enumerate(self._answers)}
        self._written = Counter(_identity(event) for event in before if event["event"] != "query")
        self._asked = {str(event.get("key")): event for event in before if event["event"] == "asked"}

        self.spent = _spent(before)

    @property
    def answered(self) -> int:
        """Queries that the run it continues had paid for."""
        return len(self._answers)

    def recall(self, index: int, phi: Tensor) -> Event | None:
        """The event of query `index`, if it was answered before; an error if that was about another phi (dim,)."""
        event = self._answers.get(index)
        if event is None:
            return None
        if event.get("phi") != packed(phi):
            apart = (unpacked(event.get("phi")) - phi).norm() if _same_size(event, phi) else math.nan
            raise FileFormatError(
                f"query {index} asked about another phi before (distance {apart:g}), although settings, model and data "
                f"are the same; expected the same bits: resume on the same machine with as many threads, or start anew"
            )
        return event

    def place(self, index: int) -> int:
        """As the how manyth query `index` was answered in the run it continues."""
        return self._places[index]

    def asked(self, key: str) -> "Asked | None":
        """What metric calls beyond the queries had answered under this key, if they were made before."""
        event = self._asked.get(key)
        if event is None:
            return None
        values, seconds = event.get("values"), event.get("seconds", 0.0)
        if not isinstance(values, list) or not all(_is_answer(value) for value in (*values, seconds)):
            raise FileFormatError(f"the answers {str(values)[:60]} of the event log are damaged; expected numbers")
        return Asked(values, whole(event.get("extra", 0)), float(seconds or 0.0))

    @property
    def lost(self) -> dict[str, int]:
        """By the first word of their key, calls of the run it continues that nobody answered: an outage."""
        words = [
            (key.split(" ")[0], len(event["values"]))
            for key, event in self._asked.items()
            if (found := self.asked(key)) is not None and found.values and set(found.values) == {None}
        ]
        return {word: sum(calls for other, calls in words if other == word) for word, _ in words}

    def query(self, index: int, phi: Tensor, fields: Mapping[str, Any], *, sync: bool = False) -> None:
        """Write down the answer to a query about phi (dim,)."""
        self._log.write("query", {"index": index, "phi": phi, **fields}, sync=sync)

    def note(self, event: str, fields: Mapping[str, Any]) -> None:
        """Write down something else, unless the run that is continued had written the same."""
        written = plain(fields)
        if event == "asked":  # so that a run recalls its own calls as one that continues it would
            self._asked[str(written["key"])] = written
        identity = _identity({"event": event, **written})
        if self._written[identity] > 0:
            self._written[identity] -= 1
            self._log.tell(event, fields)
        else:
            self._log.write(event, fields)

    def tell(self, event: str, fields: Mapping[str, Any]) -> None:
        """Let the listeners hear of something that is not worth a line of the log."""
        self._log.tell(event, fields)

    def close(self) -> None:
        """Close the file."""
        self._log.close()

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_journal(
    folder: Path | None, start: Mapping[str, Any], *, resume: bool = False, listeners: Sequence[Listener] = ()
) -> Journal:
    """The journal of a run in `folder`, begun with the facts `start` or continued if these are the same.

    Without a folder nothing is written, and the listeners hear of every event. Continuing what never began begins it.
    """
    path = None if folder is None else folder.absolute() / NAME  # wherever the metric may take us
    if path is None or not path.exists() or path.stat().st_size == 0:
        return _begun(EventLog(path, listeners), start)
    if not resume:
        raise FileFormatError(f"{folder} holds a run already; expected an empty folder: resume it or choose another")
    log = EventLog(path, listeners)
    try:
        remove_drafts(path.parent)
        return _continued(log, start, path)
    except RecursionError as error:
        log.close()
        raise FileFormatError(f"{path} is damaged ({error}); expected the event log of a run: start anew") from error
    except BaseException:
        log.close()
        raise


def _begun(log: EventLog, start: Mapping[str, Any]) -> Journal:
    log.write("start", start, sync=True)
    return Journal(log)


def _continued(log: EventLog, start: Mapping[str, Any], path: Path) -> Journal:
    if not has_checksums(path):
        raise FileFormatError(
            f"{path} is a log without checksums, as metricopt 0.1 wrote them; expected one of this version: finish the "
            f"run with the version that began it, or start anew in another folder"
        )
    before = read_events(path)
    if not before:  # killed within its first line
        return _begun(log, start)
    _check_same(before[0], start, path)
    journal = Journal(log, before)
    log.tell("start", start)
    log.write("resume", {"answered": journal.answered})
    return journal


def _check_same(first: Event, start: Mapping[str, Any], path: Path) -> None:
    """Naming what differs: an answer to another question must never be taken for an answer to this one."""
    before = {key: value for key, value in _flat(first).items() if key not in ("event", "time")}
    now = _flat(json.loads(json.dumps(plain(start))))
    if first["event"] != "start":
        raise FileFormatError(
            f"{path} begins with {first['event']!r}; expected the start of a run: choose a new folder"
        )
    different = [
        f"{key} was {_shown(before, key)} and is {_shown(now, key)}"
        for key in dict.fromkeys((*now, *before))  # settings first: other differences may follow from them
        if before.get(key) != now.get(key)
    ]
    if different:
        raise FileFormatError(
            f"the run in {path.parent} cannot be resumed: {'; '.join(different[:3])}; expected no difference: "
            f"undo it or choose a new folder"
        )


def _spent(before: Sequence[Event]) -> float:
    """Seconds that the runs which left these events had taken, each from its first event to its last."""
    sessions: list[list[float]] = []
    for event in before:
        moment = event.get("time")
        if moment is None or not _is_answer(moment):
            continue
        if event["event"] == "resume" or not sessions:
            sessions.append([float(moment)])
        else:
            sessions[-1].append(float(moment))
    return sum(max(0.0, moments[-1] - moments[0]) for moments in sessions)


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def _shown(flat: Mapping[str, Any], key: str) -> str:
    return json.dumps(flat[key])[:80] if key in flat else "not there"


def _identity(event: Mapping[str, Any]) -> str:
    return json.dumps({key: value for key, value in event.items() if key not in _FLEETING}, sort_keys=True)


def _index(event: Event) -> int:
    index = event.get("index")
    if not isinstance(index, int):
        raise FileFormatError(
            f"a query of the event log has the index {str(index)[:60]!r}; expected a number: start anew"
        )
    return index


def whole(value: Any) -> int:
    """A whole number of a log, or an error that says it is none.

    Example:
        >>> whole(3)
        3
    """
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > 2**31:
        raise FileFormatError(f"the event log has {str(value)[:60]!r} for a count; expected a number: start anew")
    return value


def _is_answer(value: Any) -> bool:
    """A number that a float can hold, or null for a call without an answer."""
    return value is None or (isinstance(value, int | float) and abs(value) <= sys.float_info.max)


def _same_size(event: Event, phi: Tensor) -> bool:
    return unpacked(event.get("phi")).shape == phi.shape
