"""Workers of any `concurrent.futures.Executor`: pools of processes or threads, Dask's, mpi4py's, joblib's.

An executor does not say which worker will take a question, so each keeps the function under a key: it is read from a
file where the worker sees our disk, and sent along with a question asked again where it does not.
"""

import contextlib
import hashlib
import pickle
import tempfile
import threading
import warnings
from collections import deque
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from pathlib import Path
from typing import Any, NamedTuple, final

from metricopt.core.errors import MetricOptWarning, WorkerError
from metricopt.run.workers import Crew, Function

_KNOWN = threading.local()  # of each worker, and of each of its threads: the last function and its key


class _Unknown(NamedTuple):
    """What a worker answers that has no function of that key and cannot read the file."""


@final
class ExecutorCrew(Crew):
    """Workers of an executor, which stays the user's own: it is not shut down.

    Example:
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> with ThreadPoolExecutor(2) as pool, ExecutorCrew(abs, 2, pool) as crew:
        ...     tickets = [crew.ask(number) for number in (-1, -2, -3)]
        ...     sorted(crew.answer(tickets).answer for _ in tickets)
        [1, 2, 3]
    """

    def __init__(self, function: Function, count: int, executor: Any) -> None:
        if not isinstance(executor, Executor):
            raise WorkerError(
                f"executor is {executor!r:.80}; expected a concurrent.futures.Executor or 'ray': pass one such as "
                f"ProcessPoolExecutor(8)"
            )
        super().__init__(count)
        self._executor, self._function = executor, function
        self._futures: dict[Future[Any], tuple[int, Any]] = {}
        self._here: deque[tuple[int, Any]] = deque()  # what this process has to answer itself
        self._broken = ""
        self._content = _pickled(function)
        self._key = hashlib.sha256(self._content).hexdigest()
        self._folder = tempfile.TemporaryDirectory(prefix="metricopt-")
        self._path = Path(self._folder.name, "function.pickle")
        self._path.write_bytes(self._content)
        self._try()

    def _try(self) -> None:
        """One call that does nothing: an executor that is shut down is found before anything is spent."""
        try:
            self._executor.submit(int).result()
        except (RuntimeError, CancelledError) as error:
            self._folder.cleanup()
            raise WorkerError(
                f"the executor takes no calls ({error}); expected one that is running: make it anew and keep it open "
                f"until optimize is through"
            ) from error

    def _send(self, ticket: int, question: Any) -> None:
        self._submit(ticket, question, None)

    def _submit(self, ticket: int, question: Any, content: bytes | None) -> None:
        if not self._broken:
            try:
                future = self._executor.submit(_answer, self._key, str(self._path), content, question)
                self._futures[future] = ticket, question
                return
            except RuntimeError as error:  # also what a broken one raises
                self._give_up(error)
        self._here.append((ticket, question))

    def _give_up(self, error: BaseException) -> None:
        self._broken = str(error) or type(error).__name__
        warnings.warn(
            f"the executor takes no more calls ({self._broken}); the rest is asked in this process, one at a time",
            MetricOptWarning,
            stacklevel=6,
        )

    def _arrivals(self) -> list[tuple[int, bool, Any]]:
        if not self._futures:
            ticket, question = self._here.popleft()
            return [(ticket, True, self._function(question))]
        found = []
        for future in wait(self._futures, return_when=FIRST_COMPLETED).done:
            ticket, question = self._futures.pop(future)
            try:
                answer = future.result()
            except (BrokenExecutor, CancelledError):
                found.append((ticket, False, None))
                continue
            if isinstance(answer, _Unknown):
                self._submit(ticket, question, self._content)
            else:
                found.append((ticket, True, answer))
        return found

    def close(self) -> None:
        """Call off what was not begun; the executor is left as it is."""
        for future in self._futures:
            future.cancel()
        self._futures = {}
        with contextlib.suppress(OSError):
            self._folder.cleanup()


def _pickled(function: Function) -> bytes:
    try:
        return pickle.dumps(function, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        try:
            import cloudpickle  # beside Ray, Dask and joblib
        except ImportError:
            raise WorkerError(
                f"the metric cannot be sent to the executor's workers ({error}); expected a function of a module that "
                f"they can import: move it there, pip install cloudpickle, or leave out executor, as workers=N alone "
                f"sends nothing"
            ) from error
        return cloudpickle.dumps(function)


def _answer(key: str, path: str, content: bytes | None, question: Any) -> Any:
    """What a worker does: the answer, by the function it has, reads or is sent."""
    if _KNOWN.__dict__.get("key") != key:
        if content is None:
            try:
                content = Path(path).read_bytes()
            except OSError:
                return _Unknown()
        _KNOWN.function, _KNOWN.key = pickle.loads(content), key
    return _KNOWN.function(question)
