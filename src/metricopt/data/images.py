"""Images with a class each: a frozen record of pixels, a user's own folder of them, and what a network takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from metricopt.core.errors import DataError
from metricopt.data.dataset import Examples

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")
"""Endings of the files that count as images, in small letters."""

_LARGEST = 16_384  # pixels of a side: more than any network takes, and a gigabyte an image
_AT_ONCE = 1000  # images whose statistics are worked out together: float64 takes eight times the room of pixels


# Comparing field by field would compare tensors, whose truth is ambiguous.
@dataclass(frozen=True, eq=False, repr=False)
class Images:
    """Images of one size with their classes.

    Attributes:
        pixels: 0 .. 255, uint8, (images, channels, height, width).
        labels: Class of each image, int64, 0 .. len(classes) - 1, (images,).
        classes: Name of each class.

    Example:
        >>> Images(torch.zeros(4, 3, 8, 8, dtype=torch.uint8), torch.tensor([0, 1, 1, 0]), ("cat", "dog"))
        Images(4 of 3 x 8 x 8, classes cat: 2, dog: 2)
    """

    pixels: Tensor
    labels: Tensor
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.pixels.dtype != torch.uint8 or self.pixels.dim() != 4 or len(self.pixels) == 0:
            raise DataError(
                f"pixels are {self.pixels.dtype} of shape {tuple(self.pixels.shape)}; "
                f"expected torch.uint8 of shape (images, channels, height, width) with at least one image"
            )
        if self.labels.dtype != torch.int64 or self.labels.shape != (len(self.pixels),):
            raise DataError(
                f"labels are {self.labels.dtype} of shape {tuple(self.labels.shape)}; "
                f"expected torch.int64 of shape ({len(self.pixels)},), one class an image"
            )
        if not 0 <= int(self.labels.min()) <= int(self.labels.max()) < len(self.classes):
            raise DataError(
                f"labels run from {int(self.labels.min())} to {int(self.labels.max())}; "
                f"expected 0 to {len(self.classes) - 1} for {len(self.classes)} classes"
            )

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        counts = torch.bincount(self.labels, minlength=len(self.classes)).tolist()
        classes = ", ".join(f"{name}: {count}" for name, count in zip(self.classes, counts, strict=True))
        return f"Images({len(self)} of {' x '.join(map(str, self.pixels.shape[1:]))}, classes {classes})"

    @cached_property
    def mean(self) -> tuple[float, ...]:
        """Mean of each channel over all pixels, 0 .. 255."""
        return tuple((self._moment(1) / self._count).tolist())

    @cached_property
    def std(self) -> tuple[float, ...]:
        """Standard deviation of each channel over all pixels."""
        variance = self._moment(2) / self._count - torch.tensor(self.mean, dtype=torch.float64) ** 2
        return tuple(variance.clamp(min=0).sqrt().tolist())

    def rows(self, index: Tensor) -> "Images":
        """Some of the images, in the order of `index`."""
        return Images(self.pixels[index], self.labels[index], self.classes)

    def examples(self, *, mean: Sequence[float] | None = None, std: Sequence[float] | None = None) -> Examples:
        """What a network takes: (pixels - mean) / std of each channel as float32, with the classes as targets.

        Args:
            mean: Of each channel, on the scale 0 .. 255; the images' own if None. Validation and test images take
                those of the training images.
            std: The same for the standard deviation.

        Example:
            >>> images = Images(torch.tensor([0, 100], dtype=torch.uint8).view(2, 1, 1, 1), torch.tensor([0, 1]), "ab")
            >>> images.examples().inputs.flatten().tolist(), images.examples(mean=[0], std=[50]).inputs.max().item()
            ([-1.0, 1.0], 2.0)
        """
        centre = self._channelwise(self.mean if mean is None else mean, "mean")
        spread = self._channelwise(self.std if std is None else std, "std")
        if not bool((spread > 0).all()):
            raise DataError(f"std is {spread.flatten().tolist()}; expected positive numbers: give std, say (255,)")
        return Examples(self.pixels.float().sub_(centre).div_(spread), self.labels)

    @property
    def _count(self) -> int:
        return self.pixels.numel() // self.pixels.shape[1]

    def _moment(self, power: int) -> Tensor:
        return torch.stack([(part.double() ** power).sum(dim=(0, 2, 3)) for part in self.pixels.split(_AT_ONCE)]).sum(0)

    def _channelwise(self, numbers: Sequence[float], name: str) -> Tensor:
        channels = self.pixels.shape[1]
        if len(numbers) not in (1, channels):
            raise DataError(f"{name} has {len(numbers)} numbers; expected {channels}, one a channel, or one for all")
        return torch.tensor([float(number) for number in numbers]).view(1, -1, 1, 1)


def image_folder(
    folder: Path | str, *, size: int | tuple[int, int] | None = None, classes: Sequence[str] | None = None
) -> Images:
    """The images in a folder with one subfolder a class (at any depth below it), as RGB; needs Pillow.

    Args:
        folder: Its subfolders, sorted by name, are the classes.
        size: Height and width that every image is resized to, or one number for both; None for images that have the
            same size already.
        classes: The names and order of the classes, where another folder (as that of the training images) sets them.

    Example:
        >>> image_folder("no-such-folder")
        Traceback (most recent call last):
        ...
        metricopt.core.errors.DataError: no-such-folder is no folder; expected one with a subfolder ...
    """
    folder = Path(folder)
    names = _classes(folder, classes)
    files = [(path, label) for label, name in enumerate(names) for path in _files(folder / name)]
    if not files:
        raise DataError(
            f"{folder} has no image in its subfolders ({', '.join(names)[:80]}); expected files that end in one of "
            f"{', '.join(SUFFIXES)}"
        )
    library, both = pillow(), _both(size)
    pixels = [pixels_of(path, both, library)[0] for path, _ in files]
    _check_sizes([path for path, _ in files], pixels)
    return Images(torch.stack(pixels), torch.tensor([label for _, label in files]), names)


def _classes(folder: Path, known: Sequence[str] | None) -> tuple[str, ...]:
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder; expected one with a subfolder of images for each class")
    found = tuple(sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")))
    if not found:
        raise DataError(f"{folder} has no subfolder; expected one for each class, with its images")
    if known is None:
        return found
    strange = sorted(set(found) - set(known))
    if strange:
        raise DataError(
            f"{folder} has the class {strange[0]!r}; expected only {', '.join(known)[:80]}: rename or move the folder"
        )
    return tuple(known)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())


def _both(size: Any) -> tuple[int, int] | None:
    both = (size, size) if isinstance(size, int) else size
    if both is None:
        return None
    whole = isinstance(both, tuple | list) and all(
        isinstance(each, int) and not isinstance(each, bool) for each in both
    )
    if not whole or len(both) != 2 or not 1 <= min(both) <= max(both) <= _LARGEST:
        raise DataError(
            f"size is {str(size)[:60]!r}; expected a height and a width of 1 to {_LARGEST} pixels, "
            f"or one number for both"
        )
    return (both[0], both[1])


def pillow() -> ModuleType:
    """Pillow's module of images; a sentence if it is not installed.

    Example:
        >>> pillow().__name__
        'PIL.Image'
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise DataError("reading image files needs Pillow, which is not installed: pip install pillow") from error
    return Image


def pixels_of(
    path: Path, size: tuple[int, int] | None, library: ModuleType, *, averaged: bool = False
) -> tuple[Tensor, tuple[int, int]]:
    """Pixels of an image file as RGB (3, height, width), resized if a size is named, and what its size was.

    Args:
        path: The file.
        size: Height and width.
        library: What `pillow` gave.
        averaged: Whether a smaller image is made of averages, rather than of points between pixels.
    """
    try:
        with library.open(path) as file:
            image = file.convert("RGB")
    # Pillow's decoders raise many kinds of errors about damaged files, SyntaxError and struct.error among them.
    except Exception as error:
        raise DataError(
            f"{str(path)[-200:]} cannot be read ({error!s:.200}); expected an image: restore or remove it"
        ) from error
    original = (image.height, image.width)
    if size is not None and original != size:
        way = library.Resampling.BOX if averaged else library.Resampling.BILINEAR
        image = image.resize((size[1], size[0]), way)
    flat = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    return flat.view(image.height, image.width, 3).permute(2, 0, 1), original


def _check_sizes(paths: Sequence[Path], pixels: Sequence[Tensor]) -> None:
    for path, image in zip(paths, pixels, strict=True):
        if image.shape != pixels[0].shape:
            height, width = pixels[0].shape[1:]
            raise DataError(
                f"{path} has {image.shape[1]} x {image.shape[2]} pixels and {paths[0]} {height} x {width}; "
                f"expected one size: give size=({height}, {width}) to resize them"
            )
