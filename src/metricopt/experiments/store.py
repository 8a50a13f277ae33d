"""Records as files that are either whole or absent."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any, final

from metricopt.errors import DataError, FileFormatError


def write_text(path: Path, text: str) -> None:
    """Write a file that appears only once it is complete.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_text(Path(folder, "new", "note.txt"), "whole")
        ...     Path(folder, "new", "note.txt").read_text()
        'whole'
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}")
    except OSError as error:
        raise DataError(f"{path} cannot be written ({error}); expected a folder to write to: choose another") from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        # mkstemp makes files that nobody else may read.
        Path(name).chmod(0o644)
        Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)


def write_json(path: Path, data: Any) -> None:
    """Write plain data, indented; NaN and infinity, which JSON lacks, become null.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_json(Path(folder, "r.json"), {"gain": float("nan")})
        ...     json.loads(Path(folder, "r.json").read_text())
        {'gain': None}
    """
    write_text(path, as_json(data) + "\n")


def as_json(data: Any) -> str:
    """Plain data as JSON text, with null for numbers that are none.

    Example:
        >>> as_json([1.0, float("inf")]).split()
        ['[', '1.0,', 'null', ']']
    """
    return json.dumps(_finite(data), indent=2, allow_nan=False)


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    if isinstance(data, float) and not abs(data) < float("inf"):
        return None
    return data


@final
class Store:
    """A folder with one record a file.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = Store(Path(folder))
        ...     store.write("a", {"after": 0.5})
        ...     "a" in store, "b" in store, store.read("a")
        (True, False, {'after': 0.5})
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __contains__(self, key: str) -> bool:
        return self._path(key).exists()

    def write(self, key: str, record: dict[str, Any]) -> None:
        """Keep a record."""
        write_json(self._path(key), record)

    def read(self, key: str) -> dict[str, Any]:
        """A record kept before."""
        path = self._path(key)
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise FileFormatError(
                f"{path} is damaged ({error}); expected a record in JSON: delete the file to measure it again"
            ) from error

    def drop(self, key: str) -> None:
        """Forget a record, if there is one."""
        self._path(key).unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"
