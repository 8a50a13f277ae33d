"""Lines of JSON that carry a checksum of themselves: a changed one is not taken for a whole one."""

import json
import re
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from metricopt.core.errors import FileFormatError
from metricopt.core.plain import plain

_SEAL = re.compile(rb', "crc32": "([0-9a-f]{8})"\}$')


class Line(NamedTuple):
    """What a line says, and whether it had a checksum.

    Example:
        >>> Line({"cost": 0.5}, sealed=False).record["cost"]
        0.5
    """

    record: dict[str, Any]
    sealed: bool


def sealed(record: Mapping[str, Any]) -> bytes:
    """A record as one line that ends with a checksum of all before it; it is JSON still.

    Example:
        >>> sealed({"cost": 0.5})
        b'{"cost": 0.5, "crc32": "dcd2707a"}\\n'
    """
    body = json.dumps(plain(record), allow_nan=False).encode()
    return body[:-1] + b', "crc32": "%08x"}\n' % zlib.crc32(body)


def unsealed(line: bytes) -> Line:
    """The record in a line; a FileFormatError if it is no JSON object or not what was written.

    Example:
        >>> unsealed(b'{"cost": 0.5, "crc32": "dcd2707a"}')
        Line(record={'cost': 0.5}, sealed=True)
        >>> unsealed(b'{"cost": 0.4, "crc32": "dcd2707a"}')
        Traceback (most recent call last):
        ...
        metricopt.core.errors.FileFormatError: its checksum is not that of its content
    """
    seal = _SEAL.search(line)
    body = line if seal is None else line[: seal.start()] + b"}"
    if seal is not None and zlib.crc32(body) != int(seal.group(1), 16):
        raise FileFormatError("its checksum is not that of its content")
    try:
        record = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(str(error)) from error
    if not isinstance(record, dict):
        raise FileFormatError(f"it holds a {type(record).__name__}")
    return Line(record, seal is not None)
