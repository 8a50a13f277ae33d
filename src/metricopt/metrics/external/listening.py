"""What a command says, read as it comes so that it is never held up, and kept only as far as it is needed."""

import os
import threading
from typing import IO, final

LONGEST = 1_000_000
"""Bytes that are kept of what a command prints: the last ones, where its answer is."""


@final
class Tail:
    """The end of what comes through a pipe, which it reads in a thread of its own until all ends of it are closed.

    Example:
        >>> read, write = os.pipe()
        >>> tail = Tail(os.fdopen(read, "rb"))
        >>> _ = os.write(write, b"0.5"), os.close(write)
        >>> tail.wait(5.0)
        >>> tail.text()
        '0.5'
    """

    def __init__(self, pipe: IO[bytes] | None) -> None:
        self._kept, self._cut, self._lock = bytearray(), False, threading.Lock()
        self._reader = threading.Thread(target=self._read, args=(pipe,), daemon=True)
        self._reader.start()

    def wait(self, seconds: float) -> None:
        """Wait for the end, but no longer than so many seconds."""
        self._reader.join(max(seconds, 0.0))

    def text(self) -> str:
        """The last megabyte, in whole lines where there was more: half a number looks like a number."""
        with self._lock:
            kept, cut = bytes(self._kept[-LONGEST:]), self._cut or len(self._kept) > LONGEST
        return (kept.partition(b"\n")[2] if cut else kept).decode(errors="replace")

    def _read(self, pipe: IO[bytes]) -> None:
        with pipe:
            while part := os.read(pipe.fileno(), 65536):
                with self._lock:
                    self._kept += part
                    if len(self._kept) > 2 * LONGEST:
                        del self._kept[:-LONGEST]
                        self._cut = True
