"""What is sent to a metric outside this process, and how its answer is read."""

import csv
import hashlib
import io
import json
import re
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from metricopt.core.errors import MetricError

# What float() takes besides, as 1_000 or digits of other scripts, is more likely text than an answer.
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE)


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
    """The answer in what a command printed: its last line that is a number, or a JSON object with the key `value`.

    Example:
        >>> number_in("reading 300 rows\\n0.75\\n"), number_in('{"value": 0.5}')
        (0.75, 0.5)
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    whole = text.strip()
    # An object over several lines is one answer: a line of it may be a number that means something else.
    for candidate in [whole] if whole.startswith("{") and _parsed(whole) is not None else reversed(lines):
        number = _number(candidate)
        if number is not None:
            return number
    raise NoAnswerError(
        f"it answered {whole[-200:]!r}; a last line with a number is expected, or JSON with the key 'value'"
    )


def only_number_in(text: str) -> float:
    """The answer in what a server sent: a number and nothing else, or a JSON object with the key `value`.

    Example:
        >>> only_number_in("0.75\\n"), only_number_in('{"value": 0.5}')
        (0.75, 0.5)
    """
    number = _number(text.strip())
    if number is None:
        raise NoAnswerError(
            f"it answered {text.strip()[-200:]!r}; a number and nothing else is expected, or JSON with the key 'value'"
        )
    return number


def _number(text: str) -> float | None:
    found = text if _NUMBER.fullmatch(text) else _parsed(text)
    if isinstance(found, dict):
        found = found.get("value")
    if isinstance(found, bool) or not isinstance(found, int | float | str):
        return None
    if isinstance(found, str) and not _NUMBER.fullmatch(found.strip()):
        return None
    try:
        return float(found)
    except OverflowError:
        return None


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=float, object_pairs_hook=_object)
    except (ValueError, RecursionError):
        return None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def _columns(name: str, array: np.ndarray) -> dict[str, np.ndarray]:
    flat = array.reshape(len(array), -1)
    return {name if flat.shape[1] == 1 else f"{name}_{i}": flat[:, i] for i in range(flat.shape[1])}
