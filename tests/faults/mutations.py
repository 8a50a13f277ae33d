"""Seeded damage to saved files: bytes flipped or cut, values of JSON replaced by nasty ones, keys removed.

What would be caught at the door (a hash in a file's name, a checksum in a line) is signed anew, so that the loader
behind it has to look at it.
"""

import copy
import hashlib
import json
import os
import random
from pathlib import Path

from metricopt.core.sealed import sealed

ROUNDS = int(os.environ.get("METRICOPT_MUTATIONS", "200"))
"""Mutations of each loader; 4200 are tried before a release."""

NASTY = (
    *(None, True, False, 0, -1, 1, 2, 3, 7, 2**31, 2**63, 10**20, 10**400, -(10**400), 0.0, -0.5, 1.5, 1e300, -1e300),
    *("", "x", "0", "nan", "../..", "\x00", "a" * 10_000, "{}", [], [[]], [None], [10**400], [1, 2], {}, {"a": 1}),
    *(
        [0] * 1000,
        {"shape": [10**6], "float32": ""},
        {"shape": [0], "float32": ""},
        {"shape": [10**400], "float32": ""},
    ),
    [[[[[[]]]]]],
)


def mutate(folder: Path, path: Path, draw: random.Random) -> None:
    """Damage one file of a folder in one way."""
    content = path.read_bytes()
    if path.suffix == ".safetensors":
        _write_tensors(folder, path, draw.choice((_tensor_header, mutated_bytes))(content, draw), draw)
    elif path.suffix == ".json" and draw.random() < 0.75:
        path.write_bytes(json.dumps(_tree(json.loads(content), draw)).encode())
    elif path.suffix != ".json" and draw.random() < 0.75:
        path.write_bytes(_line(content, draw))
    else:
        path.write_bytes(mutated_bytes(content, draw))


def mutated_bytes(content: bytes, draw: random.Random) -> bytes:
    """Bytes flipped, cut out, put in or doubled."""
    where, size = draw.randrange(len(content) + 1), draw.randrange(1, 40)
    flipped = bytearray(content)
    for _ in range(draw.randrange(1, 4)):
        flipped[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    return draw.choice(
        (
            bytes(flipped),
            content[:where],
            content[:where] + content[where + size :],
            content[:where] + draw.randbytes(size) + content[where + size :],
            content[:where] + content[max(0, where - size) :],
            content + draw.randbytes(size),
            draw.choice((b"", b"\n", b"[" * 100_000, b'{"a":' * 100_000, draw.randbytes(size))),
        )
    )


def _tree(tree: object, draw: random.Random) -> object:
    """One value of plain data replaced, removed or moved, at any depth."""
    places = list(_places(tree))
    for _ in range(draw.choice((1, 1, 1, 2, 5))):
        holder, key = draw.choice(places)
        if draw.random() < 0.25 and isinstance(holder, dict):
            holder.pop(key, None)
        elif draw.random() < 0.2:
            other, theirs = draw.choice(places)
            if isinstance(holder, dict) or key < len(holder):
                holder[key] = copy.deepcopy(other.get(theirs) if isinstance(other, dict) else None)
        elif isinstance(holder, dict) or key < len(holder):
            holder[key] = copy.deepcopy(draw.choice(NASTY))
        if draw.random() < 0.1 and isinstance(holder, list):
            holder.clear()
    return tree


def _places(tree: object):
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        yield tree, key
        if isinstance(value, dict | list):
            yield from _places(value)


def _line(content: bytes, draw: random.Random) -> bytes:
    """One line of a log changed and sealed again, left unsealed, removed, doubled or moved."""
    lines = content.splitlines(keepends=True)
    at = draw.randrange(len(lines))
    record = json.loads(lines[at])
    record.pop("crc32", None)
    changed = _tree(record, draw)
    way = draw.randrange(8)
    if way < 5:
        lines[at] = sealed(changed)
    elif way == 5:
        lines[at] = json.dumps(changed).encode() + b"\n"
    elif way == 6:
        lines.pop(at)
    else:
        lines.insert(draw.randrange(len(lines)), lines[at])
    return b"".join(lines)


def _tensor_header(content: bytes, draw: random.Random) -> bytes:
    """Names, types, shapes and places of tensors changed, and the size of the header with them."""
    size = int.from_bytes(content[:8], "little")
    header = json.dumps(_tree(json.loads(content[8 : 8 + size]), draw)).encode()
    stated = draw.choice((len(header), len(header), len(header), 0, 2**40, 2**63))
    return stated.to_bytes(8, "little") + header + content[8 + size :]


def _write_tensors(folder: Path, path: Path, content: bytes, draw: random.Random) -> None:
    if draw.random() < 0.1:
        path.write_bytes(content)
        return
    kind = path.stem[:-17]
    name = f"{kind}-{hashlib.sha256(content).hexdigest()[:16]}.safetensors"
    manifest = folder / f"{kind}.json"
    manifest.write_text(manifest.read_text().replace(path.name, name))
    (folder / name).write_bytes(content)
