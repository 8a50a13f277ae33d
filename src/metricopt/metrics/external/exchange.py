"""What is sent to a metric outside this process, and how its answer is read."""

import csv
import hashlib
import io
import json
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from metricopt.core.errors import MetricError


class NoAnswerError(MetricError):
    """This attempt brought no answer; another one may."""


@final
@dataclass(frozen=True)
class Question:
    """Arrays by name: `predictions`, `targets` or, where these are hidden, `rows`, and `groups` if there are any.

    Example:
        >>> question = Question({"predictions": np.array([0.5, 0.25]), "rows": np.array([3, 4])})
        >>> question.as_csv().splitlines()
        ['rows,predictions', '3,0.5', '4,0.25']
        >>> question.as_json()
        '{"predictions": [0.5, 0.25], "rows": [3, 4]}'
    """

    arrays: dict[str, np.ndarray]

    @property
    def key(self) -> str:
        """Hash of everything in it: equal questions have equal answers."""
        digest = hashlib.sha256()
        for name, array in self.arrays.items():
            digest.update(f"{name} {array.shape} {array.dtype}".encode() + np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def only(self, name: str) -> "Question":
        """One of the arrays; an error if it is not there."""
        if name not in self.arrays:
            raise MetricError(f"the command asks for {{{name}}}, but there are {', '.join(self.arrays)} only")
        return Question({name: self.arrays[name]})

    def as_npz(self) -> bytes:
        """NumPy's archive; `numpy.load` reads it without unpickling anything."""
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **self.arrays)
        return buffer.getvalue()

    def as_npy(self) -> bytes:
        """The first array alone."""
        buffer = io.BytesIO()
        np.save(buffer, next(iter(self.arrays.values())), allow_pickle=False)
        return buffer.getvalue()

    def as_csv(self) -> str:
        """A line an example, predictions last; those of several classes are numbered."""
        columns: dict[str, np.ndarray] = {}
        for name in reversed(list(self.arrays)):
            columns |= _columns(name, self.arrays[name])
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
        return text.getvalue()

    def as_json(self) -> str:
        """An object of lists."""
        return json.dumps({name: array.tolist() for name, array in self.arrays.items()})


def number_in(text: str) -> float:
    """The answer in what a metric printed: its last line that is a number, or a JSON object with the key `value`.

    Example:
        >>> number_in("reading 300 rows\\n0.75\\n"), number_in('{"value": 0.5}')
        (0.75, 0.5)
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in [*reversed(lines), text]:
        number = _number(line)
        if number is not None:
            return number
    raise NoAnswerError(
        f"it answered {text.strip()[-200:]!r}; a last line with a number is expected, or JSON with the key 'value'"
    )


def _number(line: str) -> float | None:
    try:
        found: Any = json.loads(line, parse_constant=float)
    except (ValueError, RecursionError):
        found = line
    if isinstance(found, dict):
        found = found.get("value")
    if isinstance(found, bool) or not isinstance(found, int | float | str):
        return None
    try:
        return float(found)
    except (ValueError, OverflowError):
        return None


def _columns(name: str, array: np.ndarray) -> dict[str, np.ndarray]:
    flat = array.reshape(len(array), -1)
    return {name if flat.shape[1] == 1 else f"{name}_{i}": flat[:, i] for i in range(flat.shape[1])}
