"""Fetching a data set from its home, and where it is kept."""

import http.client
import os
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from metricopt.core.errors import DataError, FileFormatError
from metricopt.core.writing import write_bytes
from metricopt_lab.data.archives import bounded

_SECONDS = 60
_MOST = 1_000_000_000  # bytes; the largest data set has 170 MB


def fetch(addresses: Sequence[str], *, otherwise: str) -> bytes:
    """What the first address that answers sends.

    Args:
        addresses: Tried in turn.
        otherwise: What the user can do if none answers; it ends the sentence of the DataError.

    Example:
        >>> fetch(["file:///nowhere/at-all"], otherwise="look elsewhere")
        Traceback (most recent call last):
        metricopt.core.errors.DataError: nothing came from file:///nowhere/at-all (...); ... look elsewhere
    """
    failures = []
    for address in addresses:
        try:
            with urllib.request.urlopen(address, timeout=_SECONDS) as answer:
                return _whole(answer)
        except (OSError, ValueError, http.client.HTTPException) as error:
            failures.append(f"{address} ({error})")
    raise DataError(f"nothing came from {' or '.join(failures)}; expected the data set there: {otherwise}")


def _whole(answer: Any) -> bytes:
    content = bounded(answer, _MOST)
    left = getattr(answer, "length", None)  # what a server said and did not send; files have none
    if left:
        raise http.client.IncompleteRead(content, left)
    return content


def cache_folder() -> Path:
    """Where downloads are kept: METRICOPT_CACHE, or `~/.cache/metricopt`.

    Example:
        >>> cache_folder() == Path(os.environ.get("METRICOPT_CACHE") or Path.home() / ".cache" / "metricopt")
        True
    """
    return Path(os.environ.get("METRICOPT_CACHE") or Path.home() / ".cache" / "metricopt")


def keep(path: Path, content: bytes) -> None:
    """Keep a download in the cache folder; a DataError that names the way out if it cannot be written.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     keep(Path(folder, "new", "note"), b"whole")
        ...     Path(folder, "new", "note").read_bytes()
        b'whole'
    """
    try:
        write_bytes(path, content)
    except FileFormatError as error:
        raise DataError(f"{error}; or set METRICOPT_CACHE to a folder that can be written to") from error
