"""Records as files that are either whole or absent."""

import json
from pathlib import Path
from typing import Any, final

from metricopt.core.errors import FileFormatError
from metricopt.core.writing import write_json


@final
class Store:
    """A folder with one record a file.

    Example:
        >>> import tempfile
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
