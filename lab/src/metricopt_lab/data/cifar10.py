"""CIFAR-10: from a local copy, the cache, or its home, with the same verified contents; nothing is unpickled."""

import hashlib
import io
import os
import tarfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from metricopt.core.errors import DataError
from metricopt.data.dataset import Examples
from metricopt.data.images import Images
from metricopt_lab.data.archives import DAMAGE, bounded, npz_arrays
from metricopt_lab.data.download import cache_folder, fetch, keep

ADDRESS = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
MD5 = "c32a1d4ab5d03f1284b67883e8d87530"
"""Of the archive, as its home publishes it."""
BATCHES = {
    "data_batch_1": "aadd24acce27caa71bf4b10992e9e7b2d74c2540",
    "data_batch_2": "c0ba65cce70568cd57b4e03e9ac8d2a5367c1795",
    "data_batch_3": "1dd00a74ab1d17a6e7d73e185b69dbf31242f295",
    "data_batch_4": "aab85764eb3584312d3c7f65fd2fd016e36a258e",
    "data_batch_5": "26e2849e66a845b7f1e4614ae70f4889ae604628",
    "test_batch": "67eb016db431130d61cd03c7ad570b013799c88c",
}
"""SHA-1 of each batch in the layout of the binary release."""
FINGERPRINT = hashlib.sha256("".join(BATCHES.values()).encode()).hexdigest()
"""Of the contents, which are verified whenever they are read."""
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
MEAN = (125.307, 122.950, 113.865)
STD = (62.993, 62.089, 66.705)
"""What `cifar10_split` normalises by, as the shipped network expects."""
SOURCE = "Krizhevsky, A. (2009), Learning Multiple Layers of Features from Tiny Images (CIFAR-10)"

_SIDE = 32
_ROW = 1 + 3 * _SIDE * _SIDE  # the label, then red, green and blue, each row by row
_MOST = 200_000_000  # bytes of an array; the training images have 153,600,000


class Cifar10(NamedTuple):
    """The 50,000 training and 10,000 test images in their original order.

    Example:
        >>> one = Images(torch.zeros(1, 3, 32, 32, dtype=torch.uint8), torch.tensor([3]), CLASSES)
        >>> data = Cifar10(train=one, test=one)
        >>> data.test.classes[data.test.labels[0]]
        'cat'
    """

    train: Images
    test: Images


class Cifar10Split(NamedTuple):
    """45,000 training, 5,000 validation and 10,000 test images, normalised.

    Example:
        >>> one = Examples(torch.zeros(1, 3, 32, 32), torch.tensor([3]))
        >>> len(Cifar10Split(train=one, validation=one, test=one).validation)
        1
    """

    train: Examples
    validation: Examples
    test: Examples


def cifar10() -> Cifar10:
    """CIFAR-10 as uint8 RGB, (images, 3, 32, 32).

    Looks for `cifar10.npz` and the binary release `cifar-10-binary.tar.gz` in the folder named by METRICOPT_DATA or
    its subfolder `cifar10`, then for an earlier download in METRICOPT_CACHE (`~/.cache/metricopt`), and downloads
    170 MB from its home otherwise. Contents are verified each time. Each call builds new tensors, in about a second.

    Example:
        >>> data = cifar10()  # doctest: +SKIP
        >>> len(data.train), len(data.test)  # doctest: +SKIP
        (50000, 10000)
    """
    folder = os.environ.get("METRICOPT_DATA")
    places = (Path(folder), Path(folder, "cifar10")) if folder else ()
    cached = cache_folder() / "cifar10.npz"
    for path in (*(place / name for place in places for name in ("cifar10.npz", Path(ADDRESS).name)), cached):
        if path.exists():
            return _images(verified(read(path), str(path)))
    advice = (
        f"connect to the network, or get {ADDRESS} elsewhere, put it into a folder named cifar10 and set "
        f"METRICOPT_DATA (now {folder!r}) to the folder that holds it"
    )
    archive = fetch([ADDRESS], otherwise=advice)
    found = hashlib.md5(archive, usedforsecurity=False).hexdigest()
    if found != MD5:
        raise DataError(f"{ADDRESS} sent {len(archive)} bytes with MD5 {found}; expected {MD5}: try again later")
    batches = verified(unpack(archive), ADDRESS)
    keep(cached, _archived(batches))
    return _images(batches)


def cifar10_split() -> Cifar10Split:
    """CIFAR-10 in three parts, the validation images being those that the shipped ResNet-32 was not trained on.

    Example:
        >>> [len(part) for part in cifar10_split()]  # doctest: +SKIP
        [45000, 5000, 10000]
    """
    data = cifar10()
    validation = validation_indices()
    kept = torch.ones(len(data.train), dtype=torch.bool)
    kept[validation] = False
    parts = (data.train.rows(kept.nonzero().flatten()), data.train.rows(validation), data.test)
    return Cifar10Split(*(part.examples(mean=MEAN, std=STD) for part in parts))


def validation_indices() -> torch.Tensor:
    """Positions of the 5,000 validation images among the training images, int64.

    Example:
        >>> validation_indices()[:3]
        tensor([19260,  3355, 49230])
    """
    with resources.files("metricopt_lab.data").joinpath("files/cifar10_validation_indices.npy").open("rb") as file:
        return torch.from_numpy(np.load(file, allow_pickle=False)).long()


def read(path: Path) -> np.ndarray:
    """The batches in a file: an `.npz` of x_train, y_train, x_test, y_test (NHWC), or the binary release.

    Returns:
        uint8, (batches, images a batch, 3073): label, then pixels channel by channel.

    Example:
        >>> read(Path("nowhere.npz"))
        Traceback (most recent call last):
        metricopt.core.errors.DataError: nowhere.npz cannot be read ...
    """
    try:
        if path.suffix != ".npz":
            return unpack(path.read_bytes())
        names = ("x_train", "x_test", "y_train", "y_test")
        arrays = npz_arrays(path, names, most=_MOST)
        pixels, labels = np.concatenate(arrays[:2]), np.concatenate(arrays[2:])
        batches = np.empty((len(labels), _ROW), np.uint8)
        batches[:, 0] = labels
        batches[:, 1:].reshape(-1, 3, _SIDE, _SIDE)[:] = pixels.transpose(0, 3, 1, 2)
        return batches.reshape(len(BATCHES), -1, _ROW)
    except DataError:
        raise
    except DAMAGE as error:
        raise DataError(
            f"{path} cannot be read ({error}); expected CIFAR-10: delete the file and load again"
        ) from error


def unpack(archive: bytes) -> np.ndarray:
    """The batches in the archive of the binary release, as `read` gives them.

    Example:
        >>> unpack(b"<html>sign in</html>")
        Traceback (most recent call last):
        metricopt.core.errors.DataError: b'<html>sign in</html>'... cannot be unpacked ...
    """
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            names = {Path(name).stem: name for name in tar.getnames() if name.endswith(".bin")}
            files = [tar.extractfile(names[batch]) for batch in BATCHES]
            content = b"".join(bounded(file, _MOST // 5) for file in files if file is not None)
        return np.frombuffer(content, np.uint8).reshape(len(BATCHES), -1, _ROW)
    except DAMAGE as error:
        raise DataError(
            f"{archive[:20]!r}... cannot be unpacked ({error}); expected {Path(ADDRESS).name}: get it again"
        ) from error


def verified(batches: np.ndarray, origin: str) -> np.ndarray:
    """The batches themselves, if each has its published contents.

    Example:
        >>> verified(np.zeros((6, 1, 3073), np.uint8), "a toy")
        Traceback (most recent call last):
        metricopt.core.errors.DataError: a toy has the SHA-1 ... for data_batch_1; expected aadd24ac...
    """
    for (name, expected), batch in zip(BATCHES.items(), batches, strict=True):
        found = hashlib.sha1(np.ascontiguousarray(batch).data, usedforsecurity=False).hexdigest()
        if found != expected:
            raise DataError(
                f"{origin} has the SHA-1 {found} for {name}; expected {expected}: delete the file and load again"
            )
    return batches


def _archived(batches: np.ndarray) -> bytes:
    file = io.BytesIO()
    arrays: dict[str, np.ndarray] = {}
    for part, rows in _parts(batches):
        arrays[f"x_{part}"] = rows[:, 1:].reshape(-1, 3, _SIDE, _SIDE).transpose(0, 2, 3, 1)
        arrays[f"y_{part}"] = rows[:, 0]
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


def _images(batches: np.ndarray) -> Cifar10:
    return Cifar10(
        *(
            Images(
                torch.from_numpy(rows[:, 1:].reshape(-1, 3, _SIDE, _SIDE).copy()),
                torch.from_numpy(rows[:, 0].astype(np.int64)),
                CLASSES,
            )
            for _, rows in _parts(batches)
        )
    )


def _parts(batches: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """The training images of all batches but the last, and the test images."""
    yield "train", batches[:-1].reshape(-1, _ROW)
    yield "test", batches[-1]
