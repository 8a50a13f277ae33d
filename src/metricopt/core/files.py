"""Saved things: a folder with a JSON manifest and tensors as safetensors; nothing in it is ever executed.

The manifest is written last and replaced at once, and names the file of the tensors by its hash: whenever the writing
stops, the folder holds the old state or the new one, whole.
"""

import contextlib
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from metricopt.core.errors import FileFormatError
from metricopt.core.plain import plain
from metricopt.core.writing import write_bytes

_SAFE_NAME = re.compile(r"[a-z-]+-[0-9a-f]{16}\.safetensors")


@final
@dataclass(frozen=True)
class Saved:
    """What a folder holds: plain facts and tensors by name.

    Example:
        >>> import torch
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save(folder, "value", {"dim": 2}, {"w": torch.ones(2)}, version=1)
        ...     saved = load(folder, "value", version=1)
        >>> saved.facts, saved.tensors["w"].tolist()
        ({'dim': 2}, [1.0, 1.0])
    """

    facts: dict[str, Any]
    tensors: dict[str, Tensor]

    def fact(self, name: str, kind: type | tuple[type, ...]) -> Any:
        """A fact of the stated type; an error if it is missing or of another."""
        value = self.facts.get(name)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise FileFormatError(f"the manifest has {name}={str(value)[:60]!r}; the file is damaged: save it again")
        return value


def save(
    folder: Path | str, kind: str, facts: Mapping[str, Any], tensors: Mapping[str, Tensor], *, version: int
) -> None:
    """Save facts and tensors as a thing of some kind, in place of what the folder held of that kind."""
    folder = Path(folder)
    copies = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    content = safetensors.torch.save(copies)
    name = f"{kind}-{hashlib.sha256(content).hexdigest()[:16]}.safetensors"
    manifest = {"kind": kind, "version": version, "tensors": name, "facts": plain(facts)}
    write_bytes(folder / name, content)
    write_bytes(folder / f"{kind}.json", (json.dumps(manifest, indent=1, allow_nan=False) + "\n").encode())
    for old in folder.glob(f"{kind}-*.safetensors"):
        if old.name != name and _SAFE_NAME.fullmatch(old.name):
            with contextlib.suppress(OSError):  # a leftover harms nobody
                old.unlink()


def load(folder: Path | str, kind: str, *, version: int) -> Saved:
    """What `save` saved; a FileFormatError if it is damaged, of another kind or of another version."""
    path = Path(folder) / f"{kind}.json"
    manifest = _manifest(path)
    if manifest.get("kind") != kind:
        raise FileFormatError(f"{path} holds a {str(manifest.get('kind'))[:40]!r}; expected a {kind!r}")
    if manifest.get("version") != version:
        raise FileFormatError(
            f"{path} is of version {str(manifest.get('version'))[:40]}; this metricopt reads version {version}: "
            f"save it again with this one, or load it with the one that wrote it"
        )
    name, facts = manifest.get("tensors"), manifest.get("facts")
    if not (isinstance(name, str) and _SAFE_NAME.fullmatch(name) and isinstance(facts, dict)):
        raise FileFormatError(f"{path} is damaged (tensors {str(name)[:60]!r}); expected facts and a file of tensors")
    return Saved(facts, _tensors(Path(folder) / name))


def _manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(path.read_bytes())
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read ({error.strerror or error}); expected a manifest") from error
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path} is damaged ({error}); expected a JSON manifest: save it again") from error
    if not isinstance(manifest, dict):
        raise FileFormatError(f"{path} is damaged (it holds a {type(manifest).__name__}); expected a JSON object")
    return manifest


def _tensors(path: Path) -> dict[str, Tensor]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read ({error.strerror or error}); expected saved tensors") from error
    if hashlib.sha256(content).hexdigest()[:16] != path.stem[-16:]:
        raise FileFormatError(f"{path} is damaged: its content is not what was saved; restore or save it again")
    try:
        return safetensors.torch.load(content)
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError, MemoryError) as error:
        why = " ".join(str(error).split())[:200]
        raise FileFormatError(f"{path} is damaged ({why}); expected safetensors: save it again") from error
