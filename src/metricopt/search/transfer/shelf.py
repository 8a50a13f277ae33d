"""The shelf: value functions by name that come with metricopt, each one file and one measured row."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

from metricopt.core.errors import FileFormatError, UnknownNameError
from metricopt.core.writing import write_text
from metricopt.search.transfer.carried import CarriedValue
from metricopt.search.transfer.file import SUFFIX, read_carried, save_carried

SHELF = Path(__file__).parent / "shipped"
"""Where the files are, beside `shelf.jsonl` with one row for each."""

_ROWS = "shelf.jsonl"


@final
@dataclass(frozen=True)
class Entry:
    """A value function on the shelf.

    Attributes:
        name: Of its file.
        sha256: Of the file's bytes.
        about: What it was learnt on, for which metric and adapter.
        measured: Its use elsewhere: where, how many queries it saved, and the command that measured it.
    """

    name: str
    sha256: str
    about: str
    measured: str


def entries(folder: Path = SHELF) -> dict[str, Entry]:
    """What is on the shelf, by name.

    Example:
        >>> all(len(entry.sha256) == 64 and entry.measured for entry in entries().values())
        True
    """
    path = folder / _ROWS
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = [_entry(line, path) for line in lines if line.strip()]
    return {entry.name: entry for entry in found}


def from_shelf(name: str, folder: Path = SHELF) -> CarriedValue:
    """A value function by name, verified by its row's checksum; a damaged or renamed one is refused.

    Example:
        >>> from_shelf("no_such_name")
        Traceback (most recent call last):
        metricopt.core.errors.UnknownNameError: there is no value function named 'no_such_name' on the shelf; ...
    """
    known = entries(folder)
    if name not in known:
        raise UnknownNameError(
            f"there is no value function named {name[:60]!r} on the shelf; known: {', '.join(known) or 'none'}: pass a "
            f"Path for a file of your own"
        )
    try:
        content = (folder / f"{name}{SUFFIX}").read_bytes()
    except OSError as error:
        raise FileFormatError(
            f"{name} is on the shelf's list and its file cannot be read ({error.strerror or error}); expected "
            f"{name}{SUFFIX}: restore it or install metricopt again"
        ) from error
    found = hashlib.sha256(content).hexdigest()
    if found != known[name].sha256:
        raise FileFormatError(
            f"{name} on the shelf has the SHA-256 {found[:16]}...; expected {known[name].sha256[:16]}...: it was "
            f"damaged or exchanged, restore it or install metricopt again"
        )
    return read_carried(content, name=name)


def put_on_shelf(value: CarriedValue, name: str, *, about: str, measured: str, folder: Path = SHELF) -> Entry:
    """Save a value function on the shelf, with a row of what it is and what it was measured to save elsewhere.

    Example:
        >>> import tempfile, torch
        >>> from metricopt.search.transfer.place import Place
        >>> place = Place("f1", "max", "labels", "FiLM of 2, seed 0", 1, "a", "original")
        >>> value = CarriedValue(place, torch.zeros(1), torch.zeros(1, 2), torch.zeros(0, 0, 0), torch.zeros(1, 18))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = put_on_shelf(value, "mine", about="made up", measured="nothing saved", folder=Path(folder))
        ...     list(entries(Path(folder))), from_shelf("mine", Path(folder)).place == place
        (['mine'], True)
    """
    path = save_carried(value, folder / name)
    entry = Entry(name, hashlib.sha256(path.read_bytes()).hexdigest(), about, measured)
    rows = {**entries(folder), name: entry}
    write_text(folder / _ROWS, "".join(f"{json.dumps(asdict(row))}\n" for row in rows.values()))
    return entry


def _entry(line: str, path: Path) -> Entry:
    try:
        row: dict[str, Any] = json.loads(line)
        entry = Entry(**{key: str(row[key]) for key in ("name", "sha256", "about", "measured")})
    except (ValueError, KeyError, TypeError) as error:
        raise FileFormatError(
            f"{path.name} has the row {line[:60]!r}; expected JSON with name, sha256, about and measured: mend it"
        ) from error
    return entry
