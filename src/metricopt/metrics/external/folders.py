"""Folders that a command and this process share for one question, and those that a killed run left behind."""

import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PREFIX = "metricopt-question-"
_GRACE = 60.0  # seconds in which a folder may be made and not yet be locked


@contextlib.contextmanager
def shared_folder() -> Iterator[Path]:
    """A new folder for this user alone, removed in the end; a lock that dies with this process says it is in use.

    Example:
        >>> with shared_folder() as folder:
        ...     folder.is_dir()
        True
        >>> folder.exists()
        False
    """
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    handle = _locked(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if handle is not None:
            os.close(handle)


def remove_abandoned() -> None:
    """Remove this user's folders whose process is gone: one that was killed with its guard could not do it."""
    if sys.platform == "win32":
        return
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            about = folder.lstat()
            if about.st_uid == os.getuid() and time.time() - about.st_mtime > _GRACE:
                handle = _locked(folder)
                if handle is not None:
                    shutil.rmtree(folder, ignore_errors=True)
                    os.close(handle)


def _locked(folder: Path) -> int | None:
    """A handle that holds the lock of a folder; None if another process holds it or there are no locks."""
    if sys.platform == "win32":
        return None
    import fcntl

    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle
