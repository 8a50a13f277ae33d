"""A search that is written as if it waited for answers, and a user who asks and tells: one moves at a time."""

import threading
from collections.abc import Callable, Collection
from typing import Any, final

import torch
from torch import Tensor

from metricopt.run.workers import Answered, Crew
from metricopt.task.desk import Question, Said


@final
class Turns(Crew):
    """The user as a crew: the search runs in a thread of its own, only while the user waits for points.

    Args:
        search: Runs until the last answer; begun when points are first asked for.
    """

    def __init__(self, search: Callable[[], object]) -> None:
        super().__init__(0)
        self._search = search
        self._turn = threading.Condition()
        self._searching, self._through = False, False
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._new: list[Tensor] = []
        self._limit = 0

    def next(self, count: int, dim: int) -> Tensor:
        """Let the search move until it has so many new points or needs answers: (at most count, dim)."""
        self._limit = len(self._working) + count
        self.count = 0 if self._done else self._limit  # what was told is taken in before anything is asked
        with self._turn:
            if self._thread is None and count:
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()
            if self._thread is not None and not self._through:
                self._searching = True
                self._turn.notify_all()
                self._turn.wait_for(lambda: not self._searching)
        if self._error is not None:
            raise self._error
        new, self._new = self._new, []
        return torch.cat(new) if new else torch.zeros(0, dim)

    def pending(self, dim: int) -> Tensor:
        """Points without an answer, (n, dim)."""
        points = [question.predictions.phi for question in self._working.values()]
        return torch.cat(points) if points else torch.zeros(0, dim)

    def tell(self, phi: Tensor, value: float) -> bool:
        """Take an answer about one phi (dim,); False if that was not asked about."""
        for ticket, question in self._working.items():
            if torch.equal(question.predictions.phi[0], phi):
                del self._working[ticket]
                self._new = [
                    new for new in self._new if new is not question.predictions.phi
                ]  # a point of the user's own
                failure = "" if value == value else "it was told that there is no answer"
                self._done[ticket] = Answered(ticket, Said((value,), (failure,)), 0)
                return True
        return False

    def ask(self, question: Question) -> int:
        """The search has a new point."""
        self._tickets += 1
        self._working[self._tickets] = question
        self._new.append(question.predictions.phi)
        return self._tickets

    def answer(self, tickets: Collection[int]) -> Answered | None:
        """What the user has told; if that was nothing yet, it is the user's turn."""
        told = [ticket for ticket in self._done if ticket in tickets]
        if not told:
            with self._turn:
                self._searching = False
                self._turn.notify_all()
                self._turn.wait_for(lambda: self._searching)
            return None
        answered = self._done.pop(told[0])
        self.count = 0 if self._done else self._limit
        return answered

    def _run(self) -> None:
        with self._turn:
            self._turn.wait_for(lambda: self._searching)
        try:
            self._search()
        except BaseException as error:
            self._error = error
        with self._turn:
            self._searching, self._through = False, True
            self._turn.notify_all()

    def _send(self, ticket: int, question: Any) -> None:
        raise NotImplementedError

    def _arrivals(self) -> list[tuple[int, bool, Any]]:
        raise NotImplementedError

    def close(self) -> None:
        """Nothing is to be ended: the thread waits, and does not keep the process alive."""
