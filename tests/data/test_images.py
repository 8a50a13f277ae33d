import builtins

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import metricopt as mo
from metricopt.core.errors import DataError
from metricopt.data import Images, image_folder
from metricopt.data.given import as_examples

Image = pytest.importorskip("PIL.Image")


def write(path, pixels, mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(pixels, np.uint8)).convert(mode).save(path)


@pytest.fixture
def pets(tmp_path):
    """Two dogs and a cat of 6 x 4 pixels, losslessly."""
    draw = np.random.default_rng(0)
    pixels = {
        name: draw.integers(0, 256, (6, 4, 3), np.uint8) for name in ("cat/a.png", "dog/b.PNG", "dog/puppies/c.bmp")
    }
    for name, image in pixels.items():
        write(tmp_path / name, image)
    (tmp_path / "dog" / "notes.txt").write_text("good dogs")
    (tmp_path / "about.txt").write_text("pets")
    (tmp_path / ".cache").mkdir()
    return tmp_path, pixels


def test_subfolders_are_classes_in_the_order_of_their_names_and_pixels_are_those_of_the_files(pets):
    folder, pixels = pets
    images = image_folder(folder)
    assert images.classes == ("cat", "dog") and images.labels.tolist() == [0, 1, 1]
    for found, expected in zip(images.pixels, pixels.values(), strict=True):
        np.testing.assert_array_equal(found.permute(1, 2, 0).numpy(), expected)


def test_images_of_other_modes_become_rgb(tmp_path):
    grey = np.full((2, 2), 7)
    write(tmp_path / "a" / "grey.png", grey, "L")
    write(tmp_path / "a" / "palette.gif", grey, "P")
    write(tmp_path / "a" / "see-through.png", grey, "RGBA")
    assert torch.equal(image_folder(tmp_path).pixels, torch.full((3, 3, 2, 2), 7, dtype=torch.uint8))


@pytest.mark.parametrize(("size", "shape"), [(5, (5, 5)), ((3, 8), (3, 8)), ((6, 4), (6, 4))])
def test_images_are_resized_to_height_and_width(pets, size, shape):
    images = image_folder(pets[0], size=size)
    assert images.pixels.shape == (3, 3, *shape)
    if shape == (6, 4):
        assert torch.equal(images.pixels, image_folder(pets[0]).pixels)


def test_inputs_have_mean_0_and_standard_deviation_1_by_channel_unless_told_otherwise(pets):
    images = image_folder(pets[0])
    own = images.examples().inputs.double()
    torch.testing.assert_close(own.mean(dim=(0, 2, 3)), torch.zeros(3).double(), atol=1e-6, rtol=0)
    torch.testing.assert_close(own.std(dim=(0, 2, 3), unbiased=False), torch.ones(3).double(), atol=1e-6, rtol=0)
    told = images.examples(mean=(0, 10, 20), std=(1, 2, 4))
    assert torch.equal(told.inputs[:, 2], (images.pixels[:, 2].float() - 20) / 4)
    assert told.inputs.dtype == torch.float32 and told.targets.tolist() == [0, 1, 1]


def test_another_folder_takes_the_classes_of_the_first(pets, tmp_path):
    write(tmp_path / "val" / "dog" / "d.png", np.zeros((6, 4, 3)))
    assert image_folder(tmp_path / "val", classes=("cat", "dog")).labels.tolist() == [1]
    with pytest.raises(DataError, match=r"val has the class 'dog'; expected only cat, fish"):
        image_folder(tmp_path / "val", classes=("cat", "fish"))


@pytest.mark.parametrize(
    ("name", "pixels", "sentence"),
    [
        ("cat/large.png", np.zeros((9, 9, 3)), r"large\.png has 9 x 9 pixels and .*a\.png 6 x 4; expected one size"),
        ("cat/broken.jpg", None, r"cat/broken\.jpg cannot be read \(cannot identify"),
    ],
)
def test_a_file_that_does_not_fit_is_named(pets, name, pixels, sentence):
    folder, _ = pets
    if pixels is None:
        (folder / name).write_bytes(b"no image")
    else:
        write(folder / name, pixels)
    with pytest.raises(DataError, match=sentence):
        image_folder(folder)


def test_half_a_file_is_named(pets):
    folder, _ = pets
    whole = (folder / "cat" / "a.png").read_bytes()
    (folder / "cat" / "a.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"cat/a\.png cannot be read"):
        image_folder(folder)


def test_folders_without_classes_or_images_are_refused(tmp_path):
    with pytest.raises(DataError, match="has no subfolder; expected one for each class"):
        image_folder(tmp_path)
    (tmp_path / "cat").mkdir()
    with pytest.raises(DataError, match=r"has no image in its subfolders \(cat\)"):
        image_folder(tmp_path)
    with pytest.raises(DataError, match="size is '0'; expected a height and a width of 1 to 16384"):
        write(tmp_path / "cat" / "a.png", np.zeros((2, 2, 3)))
        image_folder(tmp_path, size=0)


@pytest.mark.parametrize("size", ["8", 10**6, 10**400, (8,), (8, 8, 8), (8, "8"), 8.0, True, -1, (0, 8), [], {}])
def test_a_size_that_is_none_is_one_sentence(pets, size):
    with pytest.raises(DataError, match=r"size is '.*'; expected a height and a width"):
        image_folder(pets[0], size=size)


def test_without_pillow_one_sentence_says_what_to_install(pets, monkeypatch):
    plain = builtins.__import__

    def without(name, *rest):
        if name.split(".")[0] == "PIL":
            raise ImportError(name)
        return plain(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(DataError, match="needs Pillow, which is not installed: pip install pillow"):
        image_folder(pets[0])


PIXELS = torch.zeros(2, 3, 4, 4, dtype=torch.uint8)


@pytest.mark.parametrize(
    ("pixels", "labels", "sentence"),
    [
        (PIXELS.float(), [0, 1], r"pixels are torch\.float32 of shape \(2, 3, 4, 4\)"),
        (PIXELS[0], [0, 1], r"of shape \(3, 4, 4\)"),
        (PIXELS[:0], [], "at least one image"),
        (PIXELS, [0], r"labels are torch\.int64 of shape \(1,\)"),
        (PIXELS, [0.0, 1.0], r"labels are torch\.float32"),
        (PIXELS, [0, 2], "labels run from 0 to 2; expected 0 to 1"),
    ],
)
def test_images_that_are_none_are_refused(pixels, labels, sentence):
    with pytest.raises(DataError, match=sentence):
        Images(pixels, torch.tensor(labels), ("a", "b"))


def test_images_of_one_colour_need_a_spread_to_be_given():
    images = Images(PIXELS, torch.tensor([0, 1]), ("a", "b"))
    with pytest.raises(DataError, match=r"std is \[0\.0, 0\.0, 0\.0\]; expected positive numbers"):
        images.examples()
    with pytest.raises(DataError, match="mean has 2 numbers; expected 3"):
        images.examples(mean=(1, 2), std=(1,))
    assert images.examples(std=(255,)).inputs.abs().max() == 0


class Pictures(Dataset):
    """Dark pictures are of class 0, bright ones of class 1, more or less."""

    def __init__(self, count, seed):
        draw = torch.Generator().manual_seed(seed)
        self.labels = torch.arange(count) % 2
        self.images = torch.randn(count, 3, 8, 8, generator=draw) + self.labels.view(-1, 1, 1, 1) * 0.3

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.images[i], int(self.labels[i])


def test_a_loader_of_pictures_and_classes_is_taken_wherever_data_are():
    examples = as_examples(DataLoader(Pictures(10, 0), batch_size=4))
    assert examples.inputs.shape == (10, 3, 8, 8) and examples.targets.tolist() == [0, 1] * 5
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2))
    loaders = [DataLoader(Pictures(count, seed), batch_size=32) for count, seed in ((128, 1), (256, 2))]
    result = mo.optimize(
        net.eval(), loss=mo.losses.cross_entropy, metric="mcr", train=loaders[0], val=loaders[1], queries=20,
        recipe=mo.Recipe(start_steps=5, candidates=20),
    )  # fmt: skip
    assert result.model(examples.inputs).shape == (10, 2)
