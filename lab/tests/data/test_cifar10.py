"""CIFAR-10: unpacking and failing without a network on made-up images; the whole of it where METRICOPT_DATA has it."""

import hashlib
import importlib
import io
import os
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch

from metricopt.core.errors import DataError
from metricopt.data import check_apart
from metricopt_lab.data import cifar10, cifar10_split
from metricopt_lab.problems import pretrained_resnet32

# The package exports the function under the module's name.
module = importlib.import_module("metricopt_lab.data.cifar10")

PLACES = [Path(os.environ.get("METRICOPT_DATA", "nowhere"), part, "cifar10.npz") for part in ("", "cifar10")]
needs_copy = pytest.mark.skipif(
    not any(place.exists() for place in PLACES), reason="CIFAR-10 (180 MB) is in the folder METRICOPT_DATA only"
)

ROWS = np.random.default_rng(0).integers(0, 256, (6, 4, 3073), np.uint8)  # six batches of four images
ROWS[:, :, 0] %= 10


def packed(rows):
    """The layout of the binary release."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        for name, batch in zip(module.BATCHES, rows, strict=True):
            entry = tarfile.TarInfo(f"cifar-10-batches-bin/{name}.bin")
            entry.size = batch.size
            tar.addfile(entry, io.BytesIO(batch.tobytes()))
    return file.getvalue()


def npz(rows):
    """The layout of the array file, built by plain loops from the description of the binary one."""
    images = np.empty((24, 32, 32, 3), np.uint8)
    for n, row in enumerate(rows.reshape(24, 3073)):
        for channel in range(3):
            images[n, :, :, channel] = row[1 + 1024 * channel : 1 + 1024 * (channel + 1)].reshape(32, 32)
    labels, file = rows.reshape(24, 3073)[:, 0], io.BytesIO()
    np.savez(file, x_train=images[:20], y_train=labels[:20], x_test=images[20:], y_test=labels[20:])
    return file.getvalue()


@pytest.fixture
def sample_is_the_data_set(monkeypatch, tmp_path):
    """24 images stand for CIFAR-10, its home is a folder, and neither a copy nor a download is at hand."""
    home = tmp_path / "home" / "cifar-10-binary.tar.gz"
    home.parent.mkdir()
    home.write_bytes(packed(ROWS))
    digests = (hashlib.sha1(batch.tobytes()).hexdigest() for batch in ROWS)
    monkeypatch.setattr(module, "BATCHES", dict(zip(module.BATCHES, digests, strict=True)))
    monkeypatch.setattr(module, "MD5", hashlib.md5(home.read_bytes()).hexdigest())
    monkeypatch.setattr(module, "ADDRESS", home.as_uri())
    monkeypatch.setenv("METRICOPT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("METRICOPT_DATA", raising=False)
    return home


def check_sample(data):
    rows = ROWS.reshape(24, 3073)
    for part, expected in ((data.train, rows[:20]), (data.test, rows[20:])):
        assert part.pixels.dtype == torch.uint8 and part.labels.dtype == torch.int64
        assert part.labels.tolist() == expected[:, 0].tolist()
        assert part.pixels.numpy().tobytes() == expected[:, 1:].tobytes()
    assert data.train.classes[3] == "cat"


def test_a_download_is_unpacked_and_kept_as_arrays(sample_is_the_data_set, tmp_path):
    check_sample(cifar10())
    sample_is_the_data_set.unlink()
    check_sample(cifar10())
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["cifar10.npz"]
    with np.load(tmp_path / "cache" / "cifar10.npz") as kept, np.load(io.BytesIO(npz(ROWS))) as expected:
        assert all(np.array_equal(kept[name], expected[name]) for name in expected.files)


@pytest.mark.parametrize("place", ["", "cifar10"])
@pytest.mark.parametrize(("name", "pack"), [("cifar10.npz", npz), ("cifar-10-binary.tar.gz", packed)])
def test_a_copy_is_found_in_the_local_folder(sample_is_the_data_set, monkeypatch, tmp_path, place, name, pack):
    sample_is_the_data_set.unlink()
    monkeypatch.setenv("METRICOPT_DATA", str(tmp_path / "data"))
    (tmp_path / "data" / place).mkdir(parents=True)
    (tmp_path / "data" / place / name).write_bytes(pack(ROWS))
    check_sample(cifar10())


def test_without_network_one_sentence_says_what_to_do(sample_is_the_data_set):
    sample_is_the_data_set.unlink()
    with pytest.raises(DataError, match=r"nothing came from file:.* set METRICOPT_DATA \(now None\)"):
        cifar10()


def test_a_download_with_another_checksum_is_refused_and_not_kept(sample_is_the_data_set, tmp_path):
    sample_is_the_data_set.write_bytes(b"<html>sign in</html>")
    with pytest.raises(DataError, match=r"sent 20 bytes with MD5 \w{32}; expected"):
        cifar10()
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("batch", range(6))
@pytest.mark.parametrize(("name", "pack"), [("cifar10.npz", npz), ("cifar-10-binary.tar.gz", packed)])
def test_a_copy_with_one_changed_pixel_is_refused(sample_is_the_data_set, monkeypatch, tmp_path, batch, name, pack):
    rows = ROWS.copy()
    rows[batch, 2, 1000] ^= 1
    (tmp_path / name).write_bytes(pack(rows))
    monkeypatch.setenv("METRICOPT_DATA", str(tmp_path))
    with pytest.raises(DataError, match=rf"{name} has the SHA-1 \w{{40}} for {list(module.BATCHES)[batch]}"):
        cifar10()


class Explosive:
    def __reduce__(self):
        return exec, ("raise SystemExit('unpickled')",)


def objects():
    file = io.BytesIO()
    np.savez(file, x_train=np.array([Explosive()], object), allow_pickle=True)
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("cifar10.npz", b"PK\x03\x04 half a file"),
        ("cifar10.npz", npz(ROWS)[:5000]),
        ("cifar10.npz", objects()),
        ("cifar10.npz", pickle.dumps(Explosive())),
        ("cifar-10-binary.tar.gz", packed(ROWS)[:-100]),
        ("cifar-10-binary.tar.gz", packed(ROWS[:, :, :-1])),
    ],
    ids=["no file", "half a file", "objects", "a pickle", "half an archive", "a row too short"],
)
def test_a_damaged_copy_is_named_and_nothing_in_it_is_run(sample_is_the_data_set, monkeypatch, tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    monkeypatch.setenv("METRICOPT_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"cannot be (read|unpacked)"):
        cifar10()


def test_the_split_is_train_without_validation_and_test_each_pixel_normalised(sample_is_the_data_set, monkeypatch):
    monkeypatch.setattr(module, "validation_indices", lambda: torch.tensor([7, 2]))
    rows = ROWS.reshape(24, 3073)
    train = rows[[n for n in range(20) if n not in (2, 7)]]
    for part, expected in zip(cifar10_split(), (train, rows[[7, 2]], rows[20:]), strict=True):
        assert part.targets.tolist() == expected[:, 0].tolist()
        pixels = expected[:, 1:].reshape(-1, 3, 32, 32).astype(np.float32)
        for channel, (mean, std) in enumerate(((125.307, 62.993), (122.950, 62.089), (113.865, 66.705))):
            wanted = (pixels[:, channel] - np.float32(mean)) / np.float32(std)
            np.testing.assert_array_equal(part.inputs[:, channel].numpy(), wanted)


def test_the_validation_images_are_5000_different_ones_of_the_50000():
    index = module.validation_indices()
    assert len(set(index.tolist())) == 5000 and int(index.min()) >= 0 and int(index.max()) < 50_000


@pytest.fixture(scope="module")
def whole():
    return cifar10_split()


@needs_copy
def test_the_whole_data_set_is_in_three_parts_that_are_apart(whole):
    assert [tuple(part.inputs.shape) for part in whole] == [(n, 3, 32, 32) for n in (45_000, 5_000, 10_000)]
    labels = torch.cat([whole.train.targets, whole.validation.targets])
    assert torch.bincount(labels).tolist() == [5000] * 10
    assert torch.bincount(whole.test.targets).tolist() == [1000] * 10
    check_apart({"train": whole.train.inputs[:10_000], "validation": whole.validation.inputs})
    # Normalised by the statistics of the training images, to the digits given.
    assert whole.train.inputs[:10_000].mean(dim=(0, 2, 3)).abs().max() < 0.01


@needs_copy
def test_the_shipped_network_has_its_accuracy_on_validation_images(whole):
    inputs, targets = whole.validation.inputs[:1000], whole.validation.targets[:1000]
    with torch.no_grad():
        right = float((pretrained_resnet32()(inputs).argmax(1) == targets).double().mean())
    # 0.8836 on all 5,000 (the record of its training); 1,000 of them have a standard error of 0.010.
    assert abs(right - 0.8836) < 0.03
