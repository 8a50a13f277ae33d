"""Records in one file: a line each, appended while a run goes on, sorted by key when it ends."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, final

from metricopt.core.errors import FileFormatError
from metricopt.core.plain import plain
from metricopt.core.writing import unwritable, write_text


@final
class Store(Mapping[str, dict[str, Any]]):
    """The records of a JSON-lines file by their `key`.

    What is killed while it writes leaves a torn last line, which counts as absent. Of two lines with one key the later
    one counts.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = Store(Path(folder, "r.jsonl"))
        ...     store.append({"key": "b", "after": 0.5})
        ...     store.append({"key": "a", "after": 0.25})
        ...     store.sort()
        ...     "b" in store, list(Store(store.path))
        (True, ['a', 'b'])
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._torn = False
        self._records: dict[str, dict[str, Any]] = {}
        self.reload()

    def __getitem__(self, key: str) -> dict[str, Any]:
        return self._records[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def reload(self) -> None:
        """Read what the file holds now."""
        self._records.clear()
        # Not splitlines, which cuts at characters that JSON allows within a line.
        *lines, rest = self._text().split("\n")
        for number, line in enumerate(lines, 1):
            record = self._parsed(line, number)
            self._records[record["key"]] = record
        self._torn = bool(rest)

    def append(self, record: dict[str, Any]) -> None:
        """Keep a record: a line at the end of the file, which is opened for it alone and on the disk afterwards."""
        if self._torn:
            self._write()
        clean = plain(record)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(_line(clean))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise unwritable(self.path, error) from error
        self._records[clean["key"]] = clean

    def sort(self) -> None:
        """Write the file anew, sorted by key, together with what others have appended meanwhile."""
        self.reload()
        self._write()

    def _write(self) -> None:
        self._records = dict(sorted(self._records.items()))
        text = "".join(_line(record) for record in self._records.values())
        if self._text() != text:
            write_text(self.path, text)
        self._torn = False

    def _text(self) -> str:
        try:
            # A line may be torn within a character; such a line is dropped or named below.
            return self.path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise FileFormatError(f"{self.path} cannot be read ({error}); expected records, one a line") from error

    def _parsed(self, line: str, number: int) -> dict[str, Any]:
        try:
            record = json.loads(line)
            found = "no record with a key"
        except ValueError as error:
            record, found = None, str(error)
        if isinstance(record, dict) and isinstance(record.get("key"), str):
            return record
        raise FileFormatError(
            f"line {number} of {self.path} is damaged ({found}); expected a record in JSON: delete the line to measure "
            f"it again"
        )


def _line(record: dict[str, Any]) -> str:
    return json.dumps(record, allow_nan=False, ensure_ascii=False) + "\n"
