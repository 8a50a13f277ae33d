"""Archives that claim or hold too much, are locked, or are packed in unknown ways are refused in one sentence."""

import gzip
import importlib
import io
import struct
import zipfile

import numpy as np
import pytest

from metricopt.core.errors import DataError
from metricopt_lab.data.archives import DAMAGE, gunzipped, npz_arrays

# The package has functions of these names.
covtype = importlib.import_module("metricopt_lab.data.covtype")
cifar10 = importlib.import_module("metricopt_lab.data.cifar10")


def npy(shape, dtype="<i2", content=b""):
    """An .npy file whose header claims a shape."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"shape": shape, "fortran_order": False, "descr": dtype})
    return file.getvalue() + content


def archive(path, members, *, flags=0, method=None):
    """A zip file, the fields of its headers set to what no writer would write."""
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    content = bytearray(path.read_bytes())
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        where = content.find(mark)
        while where >= 0:
            content[where + at : where + at + 2] = struct.pack("<H", flags)
            if method is not None:
                content[where + at + 2 : where + at + 4] = struct.pack("<H", method)
            where = content.find(mark, where + 1)
    path.write_bytes(content)
    return path


NAMES = {"covtype": covtype.Survey._fields, "cifar": ("x_train", "x_test", "y_train", "y_test")}
READERS = {"covtype": covtype.read, "cifar": cifar10.read}
ARRAYS = {
    "a hundred gigabytes": npy((10**11,), "|u1"),
    "more than any number": npy((10**9, 10**9, 10**9)),
    "fewer than none": npy((-1,)),
    "objects": npy((1,), "|O", b"cos\nsystem\n(S'false'\ntR."),
    "half of what it claims": npy((4,), content=b"\0" * 4),
    "no header": b"\x93NUMPY\x01\x00\xff\xff",
    "an unknown version": b"\x93NUMPY\x09\x00" + b"\0" * 20,
    "nothing": b"",
    "other numbers": npy((2, 2), content=b"\0" * 8),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("content", ARRAYS)
def test_an_array_that_claims_what_it_does_not_hold_is_one_sentence(tmp_path, reader, content):
    path = archive(tmp_path / "a.npz", {f"{name}.npy": ARRAYS[content] for name in NAMES[reader]})
    with pytest.raises(DataError):
        found = READERS[reader](path)
        (covtype if reader == "covtype" else cifar10).verified(found, str(path))


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("settings", [{"flags": 1}, {"method": 97}, {"method": 14}, {"method": 12}])
def test_an_encrypted_archive_or_one_of_unknown_compression_is_one_sentence(tmp_path, reader, settings):
    members = {f"{name}.npy": npy((1,), content=b"\0\0") for name in NAMES[reader]}
    with pytest.raises(DataError, match="cannot be read"):
        READERS[reader](archive(tmp_path / "a.npz", members, **settings))


@pytest.mark.parametrize("settings", [{"flags": 1}, {"method": 97}])
def test_ucis_archive_encrypted_or_of_unknown_compression_is_one_sentence(tmp_path, settings):
    path = archive(tmp_path / "covertype.zip", {"covtype.data.gz": gzip.compress(b"1,2\n")}, **settings)
    with pytest.raises(DataError, match="cannot be decoded"):
        covtype.read(path)


@pytest.mark.parametrize("name", ["a.npz", "a.data.gz", "a.zip"])
@pytest.mark.parametrize("reader", READERS)
def test_a_file_that_is_gone_is_one_sentence(tmp_path, reader, name):
    with pytest.raises(DataError, match="cannot be read"):
        READERS[reader](tmp_path / name)


def test_a_bomb_is_not_unpacked(monkeypatch):
    bomb = gzip.compress(b"\0" * 3_000_000)
    assert len(bomb) < 10_000
    with pytest.raises(ValueError, match="more than 1000000 bytes"):
        gunzipped(bomb, most=1_000_000)
    monkeypatch.setattr(covtype, "_MOST", 1_000_000)
    with pytest.raises(DataError, match="more than 1000000 bytes"):
        covtype.decode(bomb)


def test_arrays_of_every_order_and_shape_are_read_as_numpy_reads_them(tmp_path):
    arrays = {"a": np.arange(6).reshape(2, 3), "b": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "c": np.float32(3)}
    np.savez_compressed(tmp_path / "a.npz", **arrays)
    for found, expected in zip(npz_arrays(tmp_path / "a.npz", list(arrays), most=100), arrays.values(), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert ValueError in DAMAGE
