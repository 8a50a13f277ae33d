"""Answers of metrics outside, kept in a file that any number of processes may share."""

import contextlib
import math
import os
import sys
import time
import warnings
from collections.abc import Iterator
from io import RawIOBase
from pathlib import Path
from typing import final

from metricopt.core.errors import FileFormatError, MetricOptWarning
from metricopt.core.sealed import Line, sealed, unsealed
from metricopt.core.writing import write_all

_BEGINNING = b'{"answer": "'  # of every line, also of one that a kill cut short
_LONGEST_LINE = 1000
_PATIENCE = 10.0  # seconds to wait for another process that is writing


@final
class AnswerCache:
    """Answers by key, one a line, appended under a lock; nothing in the file is ever changed or cut off.

    What others append is seen at the next look. A line that a kill cut short is left as it is and ignored; a file with
    anything else in it is refused.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     one, other = AnswerCache(Path(folder, "answers")), AnswerCache(Path(folder, "answers"))
        ...     one.keep("key", 0.25)
        ...     other.find("key"), other.find("another")
        (0.25, None)
    """

    def __init__(self, path: Path | str) -> None:
        """Read what there is.

        Args:
            path: The file; it and its folder are made when there is something to keep.
        """
        self._path = Path(path).absolute()
        self._answers: dict[str, float] = {}
        self._read = 0  # bytes, up to the end of a line
        self._lines = 0
        self._look()

    def find(self, key: str) -> float | None:
        """The answer kept under a key by this process or another, if there is one."""
        if key not in self._answers:
            self._look()
        return self._answers.get(key)

    def keep(self, key: str, answer: float) -> None:
        """Keep an answer; where that is not possible it is warned about, as the answer itself is not lost."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # Unbuffered: one write a line, and nothing is left that a later close would try again.
            with self._path.open("ab", buffering=0) as file, _locked(file):
                write_all(file, self._end_of_torn_line() + sealed({"answer": key, "value": float(answer)}))
                os.fsync(file.fileno())
        except OSError as error:
            message = f"{self._path} cannot be written ({error.strerror or error}); the answer is used but not kept"
            warnings.warn(message, MetricOptWarning, stacklevel=2)
        self._answers[key] = answer

    def _end_of_torn_line(self) -> bytes:
        with self._path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - 1, 0))
            return b"" if file.read() in (b"", b"\n") else b"\n"

    def _look(self) -> None:
        try:
            if self._path.stat().st_size == self._read:
                return
            with self._path.open("rb") as file:
                file.seek(self._read)
                while line := file.readline(_LONGEST_LINE):
                    self._take(line)
        except FileNotFoundError:
            return
        except OSError as error:
            raise FileFormatError(
                f"{self._path} cannot be read ({error.strerror or error}); expected a file of answers: name another"
            ) from error

    def _take(self, line: bytes) -> None:
        content = line.rstrip(b"\n")
        if not (content.startswith(_BEGINNING) or _BEGINNING.startswith(content)) or len(line) == _LONGEST_LINE:
            raise FileFormatError(
                f"line {self._lines + 1} of {self._path} is no answer that this version kept; expected a cache of its "
                f"own, as its key names the command or URL: choose another file"
            )
        if line.endswith(b"\n"):  # otherwise it is torn, or still being written
            self._read += len(line)
            self._lines += 1
            with contextlib.suppress(FileFormatError):
                self._remember(unsealed(content))

    def _remember(self, line: Line) -> None:
        key, value = line.record.get("answer"), line.record.get("value")
        if line.sealed and isinstance(key, str) and isinstance(value, float) and math.isfinite(value):
            self._answers[key] = value


@contextlib.contextmanager
def _locked(file: RawIOBase) -> Iterator[None]:
    """Hold the lock of a file, which is released when it is closed."""
    if sys.platform != "win32":
        import fcntl

        end = time.monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.005)
    yield
