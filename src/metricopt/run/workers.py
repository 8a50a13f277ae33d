"""Workers that hold one function and answer questions with it: whoever is free is asked, nobody waits for the slowest.

Answers come one at a time and in any order. A worker that dies takes no question with it: it is asked again.
"""

import contextlib
import gc
import multiprocessing
import os
import pickle
import threading
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple, final

from metricopt.core.errors import WorkerError

Function = Callable[[Any], Any]

ATTEMPTS = 3
"""How often a question is given to workers that die over it."""


def most_deaths(workers: int) -> int:
    """How many workers may die in one run before that is taken for a fault of the metric or the machine.

    Example:
        >>> most_deaths(8)
        32
    """
    return 4 * workers


class Answered(NamedTuple):
    """An answer.

    Attributes:
        ticket: What `ask` gave for its question.
        answer: What the function gave; None if every worker that was asked has died.
        lost: Workers that died over it.
    """

    ticket: int
    answer: Any
    lost: int


class Crew(ABC):
    """So many workers; what they are is up to those who derive from it.

    Attributes:
        count: Questions that are worked on at the same time.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._tickets = 0
        self._waiting: deque[tuple[int, Any]] = deque()
        self._working: dict[int, Any] = {}  # ticket to question
        self._lost: Counter[int] = Counter()
        self._deaths = 0
        self._done: dict[int, Answered] = {}

    def ask(self, question: Any) -> int:
        """Have a question answered as soon as a worker is free; the ticket under which the answer comes."""
        self._tickets += 1
        self._waiting.append((self._tickets, question))
        self._hand_out()
        return self._tickets

    def answer(self, tickets: Collection[int]) -> Answered | None:
        """The next answer to one of the questions, waited for if there is none yet; None if `count` has changed."""
        while not (ready := [ticket for ticket in self._done if ticket in tickets]):
            self._hand_out()
            for ticket, arrived, answer in self._arrivals():
                self._take(ticket, self._working.pop(ticket), arrived, answer)
        return self._done.pop(ready[0])

    def _hand_out(self) -> None:
        while self._waiting and len(self._working) < self.count:
            ticket, question = self._waiting.popleft()
            self._working[ticket] = question
            self._send(ticket, question)

    def _take(self, ticket: int, question: Any, arrived: bool, answer: Any) -> None:
        self._lost[ticket] += not arrived
        self._deaths += not arrived
        if self._deaths > most_deaths(self.count):
            raise WorkerError(
                f"{self._deaths} workers died (out of memory?); expected at most {most_deaths(self.count)} in one run "
                f"with {self.count} of them: try fewer, with run_dir and resume=True to go on"
            )
        if arrived or self._lost[ticket] >= ATTEMPTS:
            self._done[ticket] = Answered(ticket, answer, self._lost.pop(ticket))
        else:
            self._waiting.appendleft((ticket, question))

    @abstractmethod
    def _send(self, ticket: int, question: Any) -> None:
        """Give a question to a worker that is free."""

    @abstractmethod
    def _arrivals(self) -> list[tuple[int, bool, Any]]:
        """Wait until something has happened: tickets, whether there is an answer or a worker was lost, the answer."""

    @abstractmethod
    def close(self) -> None:
        """Send the workers home."""

    def __enter__(self) -> "Crew":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@final
class ForkedCrew(Crew):
    """Processes forked from this one: the function is theirs as it is, nothing of it is sent.

    Example:
        >>> with ForkedCrew(abs, 2) as crew:
        ...     tickets = [crew.ask(number) for number in (-1, -2, -3)]
        ...     sorted(crew.answer(tickets).answer for _ in tickets)
        [1, 2, 3]
    """

    def __init__(self, function: Function, count: int) -> None:
        super().__init__(count)
        self._function = function
        self._free: list[tuple[Connection, BaseProcess]] = []
        self._busy: dict[Connection, tuple[BaseProcess, int]] = {}
        for _ in range(count):
            self._free.append(self._forked())

    def _forked(self) -> tuple[Connection, BaseProcess]:
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe()
        others = [*self._busy, *(line for line, _ in self._free), ours]
        process = context.Process(target=_serve, args=(self._function, theirs, others), daemon=True)
        process.start()
        theirs.close()  # with our copy open the worker's death would go unnoticed
        return ours, process

    def _send(self, ticket: int, question: Any) -> None:
        # By value: multiprocessing would hand tensors over as open files, of which there are not many.
        content = pickle.dumps(question, protocol=pickle.HIGHEST_PROTOCOL)
        line, process = self._free.pop()
        while not _sent(line, content):  # it died while it had nothing to do
            _end(line, process)
            line, process = self._forked()
        self._busy[line] = process, ticket

    def _arrivals(self) -> list[tuple[int, bool, Any]]:
        found = []
        for line in wait(list(self._busy)):
            assert isinstance(line, Connection)
            process, ticket = self._busy.pop(line)
            try:
                found.append((ticket, True, pickle.loads(line.recv_bytes())))
                self._free.append((line, process))
            except (EOFError, ConnectionResetError):
                _end(line, process)
                self._free.append(self._forked())
                found.append((ticket, False, None))
        return found

    def close(self) -> None:
        """End the processes, whatever they are at."""
        for line, process in [*self._free, *((line, process) for line, (process, _) in self._busy.items())]:
            _end(line, process)
        self._free, self._busy = [], {}


def _sent(line: Connection, content: bytes) -> bool:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        line.send_bytes(content)
        return True
    return False


def _end(line: Connection, process: BaseProcess) -> None:
    line.close()
    process.kill()
    process.join()


def _serve(function: Function, line: Connection, others: list[Connection]) -> None:
    """Body of a worker: answers until nobody asks any more."""
    import torch

    for other in others:
        other.close()  # held open here, the first process would not see its own end of them close
    torch.set_num_threads(1)
    gc.disable()  # going through everything inherited would copy it, page by page
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            line.send_bytes(pickle.dumps(function(pickle.loads(line.recv_bytes()))))


def _end_with_parent() -> None:
    """A worker of a run that was killed must not go on asking."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextlib.contextmanager
def hired(function: Function, *, workers: int, executor: Any = None) -> Iterator[Crew | None]:
    """Workers that hold a function; nobody for one worker without an executor.

    Args:
        function: What they answer questions with.
        workers: How many.
        executor: Where they work: processes of this machine if None, a `concurrent.futures.Executor`, or "ray".

    Example:
        >>> with hired(abs, workers=1) as crew:
        ...     print(crew)
        None
    """
    if executor is None and workers == 1:
        yield None
        return
    with _crew(function, workers, executor) as crew:
        yield crew


def _crew(function: Function, workers: int, executor: Any) -> Crew:
    if executor is None:
        if "fork" not in multiprocessing.get_all_start_methods():
            raise WorkerError(
                f"workers is {workers}, but this system cannot fork processes; expected an executor: pass "
                f"executor=concurrent.futures.ProcessPoolExecutor({workers}), with a metric of an importable module"
            )
        return ForkedCrew(function, workers)
    if executor == "ray":
        from metricopt.run.workers_ray import RayCrew

        return RayCrew(function, workers)
    from metricopt.run.workers_executor import ExecutorCrew

    return ExecutorCrew(function, workers, executor)
