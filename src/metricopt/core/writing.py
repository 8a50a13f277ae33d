"""Files that appear whole or not at all: the one way in which anything here is written."""

import contextlib
import os
import re
import secrets
import sys
from io import RawIOBase
from pathlib import Path
from typing import Any

from metricopt.core.errors import FileFormatError
from metricopt.core.plain import as_json

_DRAFT = re.compile(r"\..+\.[0-9a-f]{16}\.draft")


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file that is there, complete, or not there; its folder is made if missing.

    Drafts that killed writers left in the folder are removed.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_bytes(Path(folder, "new", "note"), b"whole")
        ...     Path(folder, "new", "note").read_bytes()
        b'whole'
    """
    draft = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft, handle = _draft(path)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            draft.replace(path)
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        if draft is not None:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
    remove_drafts(path.parent)


def remove_drafts(folder: Path) -> None:
    """Remove the drafts of writers that are gone: those still writing hold a lock on theirs.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, ".note.0123456789abcdef.draft").write_text("hal")
        ...     remove_drafts(Path(folder))
        ...     list(Path(folder).iterdir())
        []
    """
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError):
        for name in [each.name for each in os.scandir(folder) if _DRAFT.fullmatch(each.name)]:
            _remove_if_abandoned(folder / name)


def _draft(path: Path) -> tuple[Path, int]:
    """A new file beside `path`, locked: nobody can foresee its name, and it has the rights the user's umask leaves."""
    while True:
        draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.draft")
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with contextlib.suppress(OSError):  # not every file system has locks
            _lock(handle, wait=True)
        if os.fstat(handle).st_nlink:  # otherwise it was taken for an abandoned one before it was locked
            return draft, handle
        os.close(handle)


def _remove_if_abandoned(draft: Path) -> None:
    with contextlib.suppress(OSError):
        handle = os.open(draft, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            _lock(handle, wait=False)
            draft.unlink()
        finally:
            os.close(handle)


def _lock(handle: int, *, wait: bool) -> None:
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def write_all(file: RawIOBase, content: bytes) -> None:
    """Append to an unbuffered file; what a full disk or a limit leaves over is an OSError, never left out.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryFile(buffering=0) as file:
        ...     write_all(file, b"whole")
        ...     file.tell()
        5
    """
    left = memoryview(content)
    while left:
        left = left[file.write(left) or 0 :]


def write_text(path: Path, text: str) -> None:
    """The same for text, as UTF-8."""
    write_bytes(path, text.encode())


def write_json(path: Path, data: Any) -> None:
    """The same for plain data, indented; NaN and infinity, which JSON lacks, become null.

    Example:
        >>> import json, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_json(Path(folder, "r.json"), {"gain": float("nan")})
        ...     json.loads(Path(folder, "r.json").read_text())
        {'gain': None}
    """
    write_text(path, as_json(data) + "\n")


def unwritable(path: Path, error: OSError) -> FileFormatError:
    """What to raise when a file cannot be written: the reason, and that what was there is still there."""
    return FileFormatError(
        f"{path} cannot be written ({error.strerror or error}); what was saved before is unharmed: "
        f"make room or choose another folder, then resume"
    )
