"""How far a long run is: a bar on a terminal, a line now and then elsewhere, nothing for what is quick."""

import sys
import time
from collections.abc import Callable
from typing import Any, TextIO, final

PATIENCE = 2.0
"""Seconds that pass in silence."""

INTERVAL = 4.0
"""Seconds between two lines where there is no terminal."""


@final
class Progress:
    """One display for one piece of work, on stderr so that stdout is the result's alone.

    Example:
        >>> seconds = iter([0.0, 1.0, 4.0, 4.1])
        >>> with Progress("cells", total=10, stream=sys.stdout, clock=lambda: next(seconds)) as progress:
        ...     progress.update(1)
        ...     progress.update(4, "a9a f1 cma_es")
        ...     progress.update(5)
        cells: 4/10, a9a f1 cma_es, 6 s left
    """

    def __init__(
        self,
        title: str,
        *,
        total: int | None = None,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        in_place: bool = False,
    ) -> None:
        """Start the clock.

        Args:
            title: What is being done.
            total: How many steps that takes, if known.
            stream: Where to show it; stderr if None.
            clock: Seconds since some moment.
            in_place: Whether a line is written over the one before it, as notebooks show it.
        """
        self.title, self.total = title, total
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._began = self._clock()
        self._shown = self._began + PATIENCE - INTERVAL
        self._first: tuple[float, int] | None = None
        self._bar: Any = None
        self._in_place = in_place
        self._width = 0

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        if self._width:
            print(file=self._stream, flush=True)

    def turn(self) -> None:
        """From now on another kind of step is made: the pace so far tells nothing about it."""
        self._first = None

    def say(self, line: str) -> None:
        """Show a line that stays."""
        if self._bar is None:
            print(f"{self.title}: {line}", file=self._stream, flush=True)
        else:
            self._bar.console.print(f"{self.title}: {line}", markup=False, highlight=False)

    def update(self, done: int, text: str = "") -> None:
        """Say that `done` steps are done, and what is to be said beside it."""
        now = self._clock()
        if self._first is None and done:
            self._first = (now, done)
        if now - self._began < PATIENCE:
            return
        parts = [self._count(done), text, self._left(done, now)]
        line = ", ".join(part for part in parts if part)
        if self._stream.isatty():
            self._draw(done, line)
        elif self._in_place:
            print(f"\r{self.title}: {line:<{self._width}}", end="", file=self._stream, flush=True)
            self._width = len(line)
        elif now - self._shown >= INTERVAL:
            self._shown = now
            print(f"{self.title}: {line}", file=self._stream, flush=True)

    def _count(self, done: int) -> str:
        return str(done) if self.total is None else f"{done}/{self.total}"

    def _left(self, done: int, now: float) -> str:
        """Time left at the pace since the first update: what came before it, as training, was no step."""
        start, already = (now, done) if self._first is None else self._first
        if not self.total or done <= already:
            return ""
        seconds = (now - start) * (self.total - done) / (done - already)
        return f"{seconds:.0f} s left" if seconds < 120 else f"{seconds / 60:.0f} min left"

    def _draw(self, done: int, line: str) -> None:
        if self._bar is None:
            self._bar = _bar(self._stream)
            self._bar.add_task("", total=self.total, line="")
        self._bar.update(0, completed=done, total=self.total, description=self.title, line=line)


def _bar(stream: TextIO) -> Any:
    """A bar of rich, imported late: it takes longer to import than most commands to say their help."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as RichProgress

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[line]}"))
    bar = RichProgress(*columns, console=Console(file=stream), transient=True)
    bar.start()
    return bar


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook.

    Example:
        >>> in_notebook()
        False
    """
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return type(shell).__name__ == "ZMQInteractiveShell"
