"""Archives read only as far as is expected: a small file may claim, or unpack to, more than there is room for."""

import gzip
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np

DAMAGE = (
    *(OSError, EOFError, LookupError, ValueError, TypeError, ArithmeticError, MemoryError),
    RuntimeError,  # of zipfile: encrypted, or packed in a way it does not know
    *(struct.error, tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
)
"""What the readers of the standard library and of NumPy raise about files that are not what they should be."""


def npz_arrays(path: Path, names: Sequence[str], *, most: int) -> list[np.ndarray]:
    """Arrays of an .npz file, each of at most so many bytes; nothing is unpickled.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.savez(Path(folder, "a.npz"), x=np.arange(3))
        ...     npz_arrays(Path(folder, "a.npz"), ["x"], most=100)
        [array([0, 1, 2])]
    """
    with zipfile.ZipFile(path) as archive:
        return [_array(archive, f"{name}.npy", most) for name in names]


def gunzipped(payload: bytes, *, most: int) -> bytes:
    """What a gzip file holds, if that is at most so many bytes.

    Example:
        >>> gunzipped(gzip.compress(b"rows"), most=10)
        b'rows'
    """
    with gzip.GzipFile(fileobj=io.BytesIO(payload)) as file:
        return bounded(file, most)


def bounded(file: IO[bytes], most: int) -> bytes:
    """What a file holds, if that is at most so many bytes.

    Example:
        >>> bounded(io.BytesIO(b"rows"), 3)
        Traceback (most recent call last):
        ...
        ValueError: it holds more than 3 bytes
    """
    content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"it holds more than {most} bytes")
    return content


def _array(archive: zipfile.ZipFile, name: str, most: int) -> np.ndarray:
    with archive.open(name) as file:
        # What the header claims is compared before room is made for it.
        version = np.lib.format.read_magic(file)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read_header(file)
        if dtype.hasobject:
            raise ValueError(f"{name} holds objects, which are never unpickled")
        count = int(np.prod([int(size) for size in shape], dtype=object)) if shape else 1
        content = bounded(file, min(count * dtype.itemsize, most))
        if len(content) != count * dtype.itemsize:
            raise ValueError(f"{name} claims {count * dtype.itemsize} bytes and holds {len(content)}; most are {most}")
    return np.frombuffer(content, dtype).reshape(shape, order="F" if fortran else "C")
