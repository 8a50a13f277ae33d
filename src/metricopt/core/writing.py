"""Files that appear whole or not at all: the one way in which anything here is written."""

import contextlib
import os
import secrets
from io import RawIOBase
from pathlib import Path
from typing import Any

from metricopt.core.errors import FileFormatError
from metricopt.core.plain import as_json


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file that is there, complete, or not there; its folder is made if missing.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_bytes(Path(folder, "new", "note"), b"whole")
        ...     Path(folder, "new", "note").read_bytes()
        b'whole'
    """
    # A name nobody can foresee, made by us alone, with the rights that the user's umask leaves.
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.draft")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)


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
