"""Asking a program: predictions in a file, the answer on its standard output."""

import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import final

from metricopt.core.errors import MetricError
from metricopt.metrics.checks import positive
from metricopt.metrics.external import guard
from metricopt.metrics.external.exchange import NoAnswerError, Question
from metricopt.metrics.external.folders import remove_abandoned, shared_folder
from metricopt.metrics.external.listening import Tail

_PLACE = re.compile(r"\{(predictions|targets|rows|groups)(?::(npz|npy|csv))?\}")
_FAREWELL = 0.7  # seconds in which the guard ends what it guards


@final
class Command:
    """A command line with places for files, run without a shell; all that it started ends with it, or with this run.

    Of what it prints the last megabyte is kept.

    Attributes:
        identity: What it asks, for the key of remembered answers.

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
        if "\0" in line:
            raise MetricError(f"the command {line!r} has a null character in it; expected none: remove it")
        self.time_limit = positive(line, "time_limit", time_limit) or 60.0
        self.identity = f"command {shlex.join(self.words)}"
        remove_abandoned()

    def __call__(self, question: Question) -> str:
        """What the command printed about the question."""
        with shared_folder() as folder:
            try:
                words = [_PLACE.sub(lambda match: _file(question, match, folder), word) for word in self.words]
            except OSError as error:
                raise NoAnswerError(f"the question could not be written to {folder}: {error.strerror}") from error
            return self._run(words, folder)

    def _run(self, words: list[str], folder: Path) -> str:
        end = time.monotonic() + self.time_limit
        process = _started(words, folder)
        out, errors = Tail(process.stdout), Tail(process.stderr)
        try:
            out.wait(end - time.monotonic())  # its end is that of the command, unless a child holds it open
            code = process.wait(max(end - time.monotonic(), 0.01))
        except subprocess.TimeoutExpired as error:
            raise NoAnswerError(f"no answer within {self.time_limit:g} s; the command was killed") from error
        finally:
            _ended(process)
        out.wait(_FAREWELL)
        if code != 0:
            errors.wait(_FAREWELL)
            said = errors.text().strip()[-300:] or "nothing"
            raise NoAnswerError(f"the command ended with code {code} and said {said!r} on stderr")
        return out.text()


def _started(words: list[str], folder: Path) -> subprocess.Popen[bytes]:
    # Windows has neither process groups nor orphans that could be adopted: there the command alone is killed.
    guarded = [] if sys.platform == "win32" else [sys.executable, "-I", "-S", guard.__file__, str(folder)]
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen([*guarded, *words], stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
    except (OSError, ValueError) as error:
        raise NoAnswerError(f"the command {words[0]!r} could not be started: {error}") from error


def _ended(process: subprocess.Popen[bytes]) -> None:
    """End the command and all it started: without its standard input the guard kills them and goes."""
    if process.stdin is not None:
        process.stdin.close()
    if sys.platform == "win32":
        process.kill()
    try:
        process.wait(_FAREWELL)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _file(question: Question, match: re.Match[str], folder: Path) -> str:
    name, kind = match.group(1), match.group(2)
    path = folder / f"{name}.{kind or ('npz' if name == 'predictions' else 'npy')}"
    if path.suffix == ".npy":
        path.write_bytes(question.only(name).as_npy())
    else:
        part = question if name == "predictions" else question.only(name)
        path.write_bytes(part.as_csv().encode() if path.suffix == ".csv" else part.as_npz())
    return str(path)
