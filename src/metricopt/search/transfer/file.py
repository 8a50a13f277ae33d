"""A value function in one file: safetensors with a manifest in its header and a checksum over all of it."""

import hashlib
import json
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from metricopt.core.errors import FileFormatError
from metricopt.core.plain import plain
from metricopt.core.registry import one_of
from metricopt.core.writing import write_bytes
from metricopt.data.dataset import hashed
from metricopt.search.transfer.carried import KINDS, CarriedValue
from metricopt.search.transfer.place import place_from

_KIND, _VERSION = "carried-value", 1
SUFFIX = ".safetensors"
"""What the files are called."""


def save_carried(value: CarriedValue, path: Path | str) -> Path:
    """Write a value function into one file, `.safetensors`; it says its own name, so that a renamed one is noticed.

    Example:
        >>> import tempfile, torch
        >>> from metricopt.search.transfer.place import Place
        >>> place = Place("f1", "max", "labels", "FiLM of 2, seed 0", 1, "a", "original")
        >>> value = CarriedValue(place, torch.zeros(1), torch.zeros(1, 2), torch.zeros(1, 5, 1), torch.zeros(1, 18))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     load_carried(save_carried(value, Path(folder, "mine"))).place == place
        True
    """
    path = Path(path)
    path = path if path.suffix == SUFFIX else path.with_name(path.name + SUFFIX)
    facts = {
        "kind": _KIND,
        "version": _VERSION,
        "name": path.stem,
        "place": value.place.facts,
        "only": value.kind,
        "settings": dict(value.settings),
        "about": dict(value.about),
    }
    tensors = {name: part.detach().cpu().contiguous().clone() for name, part in value.tensors.items()}
    manifest = json.dumps(plain(facts), allow_nan=False, sort_keys=True)
    content = safetensors.torch.save(tensors, metadata={"manifest": manifest, "checksum": _checksum(manifest, tensors)})
    write_bytes(path, content)
    return path


def load_carried(path: Path | str) -> CarriedValue:
    """The value function that `save_carried` or `Result.save_value` saved; one that is damaged or renamed is refused.

    Example:
        >>> load_carried(Path("nowhere.safetensors"))
        Traceback (most recent call last):
        metricopt.core.errors.FileFormatError: nowhere.safetensors cannot be read (No such file or directory); ...
    """
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FileFormatError(
            f"{path} cannot be read ({error.strerror or error}); expected the file of a value function"
        ) from error
    return read_carried(content, name=path.stem)


def read_carried(content: bytes, *, name: str) -> CarriedValue:
    """The value function that the bytes of a file of that name hold."""
    try:
        length = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + length])["__metadata__"]
        manifest, checksum = header["manifest"], header["checksum"]
        facts, tensors = json.loads(manifest), safetensors.torch.load(content)
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError, RecursionError, MemoryError) as error:
        why = " ".join(str(error).split())[:200]
        raise FileFormatError(f"{name} is damaged ({why}); expected a value function: save it again") from error
    if checksum != _checksum(manifest, tensors):
        raise FileFormatError(f"{name} is damaged: its content is not what was saved; restore or save it again")
    _check_header(facts, name)
    if set(tensors) != {"costs", "points", "outputs", "statistics"}:
        raise FileFormatError(f"{name} has the tensors {sorted(tensors)}; expected those of a value function")
    settings = {key: float(number) for key, number in facts["settings"].items()}
    costs, points, outputs, told = (tensors[each] for each in ("costs", "points", "outputs", "statistics"))
    only = facts.get("only")  # files of before have none
    if only is not None:
        one_of(only, KINDS, what="kind of value function")
    return CarriedValue(place_from(facts["place"]), costs, points, outputs, told, settings, facts["about"], only)


def _check_header(facts: dict[str, Any], name: str) -> None:
    if (facts.get("kind"), facts.get("version")) != (_KIND, _VERSION):
        raise FileFormatError(
            f"{name} holds a {str(facts.get('kind'))[:40]!r} of version {str(facts.get('version'))[:40]}; expected a "
            f"{_KIND!r} of version {_VERSION}: save it again with this metricopt"
        )
    if facts.get("name") != name:
        raise FileFormatError(
            f"the file {name} says that it is {str(facts.get('name'))[:60]!r}; expected the name it was saved under: "
            f"rename it back"
        )


def _checksum(manifest: str, tensors: dict[str, Tensor]) -> str:
    contents = hashed(*(tensors[name] for name in sorted(tensors)))
    return hashlib.sha256(f"{manifest} {contents}".encode()).hexdigest()


def digest(value: CarriedValue) -> str:
    """A short hash of all that a value function is, to recognise it by."""
    facts = json.dumps(plain({"place": value.place.facts, "kind": value.kind, "settings": dict(value.settings)}))
    return _checksum(facts, {name: part.contiguous() for name, part in value.tensors.items()})[:16]
