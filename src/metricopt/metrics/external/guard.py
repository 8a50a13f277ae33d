"""Runs a command and lets nothing of it outlive its end, or that of the process that asked for it.

Run as a program of its own (`python -I -S guard.py FOLDER WORD...`), so it imports nothing of ours. It waits for the
command, kills whatever that has left running, and ends with its code (128 + n for signal n). Its standard input is
held open by the process that asked: when that ends, however it ends, the command is killed and FOLDER removed.

On Linux the guard adopts every orphan below it, so that neither `setsid` nor a double fork escapes; elsewhere the
command's process group is all that is known of its children.
"""

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable

_DIE_WITH_PARENT, _ADOPT_ORPHANS = 1, 36  # of Linux's prctl
_PATIENCE = 0.5  # seconds for killed processes to go; what hangs in the kernel is left to it
_STATUS_OF_PARENT = 1.0  # seconds between two looks, should a fork of the parent hold its end of the pipe open


def main(folder: str, words: list[str]) -> int:
    """Run the command; its code."""
    asker, control = os.getppid(), _control()
    control(_ADOPT_ORPHANS, 1)
    woken = _wakeup()
    command = _started(words, control)
    status = None
    while status is None:
        ready, _, _ = select.select([0, woken], [], [], _STATUS_OF_PARENT)
        if woken in ready:
            os.read(woken, 4096)
            status = _reaped(command)
        if status is None and (0 in ready or os.getppid() != asker):
            _end_all(command)
            _remove(folder)
            return 1
    _end_all(command)
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def _control() -> Callable[[int, int], object]:
    """Linux's prctl; nothing elsewhere."""
    if not sys.platform.startswith("linux"):
        return lambda _option, _value: None
    import ctypes

    return ctypes.CDLL(None, use_errno=True).prctl


def _wakeup() -> int:
    """A file that becomes readable when a child ends."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return read


def _started(words: list[str], control: Callable[[int, int], object]) -> int:
    command = os.fork()
    if command:
        return command
    try:
        control(_DIE_WITH_PARENT, signal.SIGKILL)
        os.setpgid(0, 0)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and exec would pass that on
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.execvp(words[0], words)
    except OSError as error:
        os.write(2, f"it could not be started: {error.strerror}".encode())
    os._exit(127)


def _reaped(command: int) -> int | None:
    """Status of the command if it has ended; adopted orphans that ended are reaped on the way."""
    status = None
    with contextlib.suppress(ChildProcessError):
        while True:
            process, found = os.waitpid(-1, os.WNOHANG)
            if process == 0:
                break
            status = found if process == command else status
    return status


def _end_all(command: int) -> None:
    """Kill until nothing is left: a process that forks may be one ahead of the list."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            os.killpg(command, signal.SIGKILL)
        left = _descendants()
        for process in left:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        _reaped(command)
        if not left:
            return
        time.sleep(0.005)


def _descendants() -> list[int]:
    """Everything that was started below this process and is not yet gone, where /proc tells."""
    parents = dict(_parents())
    below = {os.getpid()}
    while more := {process for process, parent in parents.items() if parent in below} - below:
        below |= more
    return sorted(below - {os.getpid()})


def _parents() -> list[tuple[int, int]]:
    found = []
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():  # noqa: PTH112, PTH208 - starts sooner
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                # The name of the program, in brackets, may hold anything.
                found.append((int(name), int(file.read().rpartition(b")")[2].split()[1])))
    return found


def _remove(folder: str) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
