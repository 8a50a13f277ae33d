"""Asking a program: predictions in a file, the answer on its standard output."""

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import final

from metricopt.core.errors import MetricError
from metricopt.metrics.external.exchange import NoAnswerError, Question

_PLACE = re.compile(r"\{(predictions|targets|rows|groups)(?::(npz|npy|csv))?\}")


@final
class Command:
    """A command line with places for files; it is run without a shell, and killed with all it started when late.

    Example:
        >>> import numpy as np
        >>> command = Command(f"{sys.executable} -c 'print(0.5)' {{predictions}}", time_limit=60)
        >>> command(Question({"predictions": np.zeros(2)})).strip()
        '0.5'
    """

    def __init__(self, line: str, *, time_limit: float) -> None:
        """Check the line: its program must exist, and the predictions must have a place in it."""
        try:
            self.words = shlex.split(line)
        except ValueError as error:
            raise MetricError(f"the command {line!r} cannot be read ({error}); close its quotes") from error
        if not self.words or shutil.which(self.words[0]) is None:
            raise MetricError(f"the command {line!r} names no program that is found; expected one on the PATH")
        if not any(match.group(1) == "predictions" for match in _PLACE.finditer(line)):
            raise MetricError(f"the command {line!r} has no place for the predictions; write {{predictions}} into it")
        self.time_limit = time_limit

    def __call__(self, question: Question) -> str:
        """What the command printed about the question."""
        with tempfile.TemporaryDirectory(prefix="metricopt-") as folder:
            words = [_PLACE.sub(lambda match: _file(question, match, Path(folder)), word) for word in self.words]
            return self._run(words)

    def _run(self, words: list[str]) -> str:
        pipe = subprocess.PIPE
        try:
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, start_new_session=True
            )
        except OSError as error:
            raise NoAnswerError(f"the command {words[0]!r} could not be started: {error.strerror}") from error
        with process:
            try:
                out, errors = process.communicate(timeout=self.time_limit)
            except subprocess.TimeoutExpired as error:
                raise NoAnswerError(f"no answer within {self.time_limit:g} s; the command was killed") from error
            finally:
                _end(process)
        if process.returncode != 0:
            said = errors.decode(errors="replace").strip()[-300:] or "nothing"
            raise NoAnswerError(f"the command ended with code {process.returncode} and said {said!r} on stderr")
        return out.decode(errors="replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of a command: its children would go on and hold its output open."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)


def _file(question: Question, match: re.Match[str], folder: Path) -> str:
    name, kind = match.group(1), match.group(2)
    path = folder / f"{name}.{kind or ('npz' if name == 'predictions' else 'npy')}"
    if path.suffix == ".npy":
        path.write_bytes(question.only(name).as_npy())
    else:
        part = question if name == "predictions" else question.only(name)
        path.write_bytes(part.as_csv().encode() if path.suffix == ".csv" else part.as_npz())
    return str(path)
