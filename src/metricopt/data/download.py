"""Fetching a data set from its home, and writing files that are either whole or absent."""

import http.client
import os
import tempfile
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from metricopt.errors import DataError

_SECONDS = 60


def fetch(addresses: Sequence[str], *, otherwise: str) -> bytes:
    """What the first address that answers sends.

    Args:
        addresses: Tried in turn.
        otherwise: What the user can do if none answers; it ends the sentence of the DataError.

    Example:
        >>> fetch(["file:///nowhere/at-all"], otherwise="look elsewhere")
        Traceback (most recent call last):
        metricopt.errors.DataError: nothing came from file:///nowhere/at-all (...); ... look elsewhere
    """
    failures = []
    for address in addresses:
        try:
            with urllib.request.urlopen(address, timeout=_SECONDS) as answer:
                return answer.read()
        except (OSError, http.client.HTTPException) as error:
            failures.append(f"{address} ({error})")
    raise DataError(f"nothing came from {' or '.join(failures)}; expected the data set there: {otherwise}")


def cache_folder() -> Path:
    """Where downloads are kept: METRICOPT_CACHE, or `~/.cache/metricopt`.

    Example:
        >>> cache_folder() == Path(os.environ.get("METRICOPT_CACHE") or Path.home() / ".cache" / "metricopt")
        True
    """
    return Path(os.environ.get("METRICOPT_CACHE") or Path.home() / ".cache" / "metricopt")


def write_whole(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Lets `write` fill the file at `path`, which appears only once it is complete.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_whole(Path(folder, "new", "note"), lambda file: print(file.write(b"five5")))
        ...     Path(folder, "new", "note").read_bytes()
        5
        b'five5'
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    except OSError as error:
        raise DataError(
            f"{path.parent} cannot be written to ({error}); expected a folder for downloads: set METRICOPT_CACHE to one"
        ) from error
    draft = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
