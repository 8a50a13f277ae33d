"""Value networks in files, each for the one model whose phi it is about."""

from itertools import pairwise
from pathlib import Path

import torch

from metricopt.core.errors import FileFormatError
from metricopt.core.files import load, save
from metricopt.paper.network import ValueNetwork

_VERSION = 1


def save_value(value: ValueNetwork, folder: Path | str, *, fingerprint: str) -> None:
    """Save a value network with the fingerprint of the adapted model it belongs to.

    Example:
        >>> import tempfile
        >>> value = ValueNetwork(3, generator=torch.Generator().manual_seed(0)).eval()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_value(value, folder, fingerprint="a" * 16)
        ...     again = load_value(folder, fingerprint="a" * 16)
        >>> torch.equal(value(torch.ones(2, 3)), again(torch.ones(2, 3)))
        True
    """
    facts = {
        "dim": value.dim,
        "members": value.members,
        "hidden": list(value.hidden),
        "norm": value.norm,
        "fingerprint": fingerprint,
    }
    save(folder, "value", facts, value.state_dict(), version=_VERSION)


def load_value(folder: Path | str, *, fingerprint: str) -> ValueNetwork:
    """The value network that `save_value` saved, in eval mode; one for another model is refused."""
    saved = load(folder, "value", version=_VERSION)
    if saved.fact("fingerprint", str) != fingerprint:
        raise FileFormatError(
            f"the value function was learnt for the model with fingerprint {saved.facts['fingerprint'][:16]}, this one "
            f"has {fingerprint}; learn one for this model"
        )
    dim, members, hidden = saved.fact("dim", int), saved.fact("members", int), saved.fact("hidden", list)
    widths = [dim, *hidden, 1]
    if any(isinstance(width, bool) or not isinstance(width, int) or width < 1 for width in (members, *widths)):
        raise FileFormatError(f"the saved value has widths {str(widths)[:80]}; expected whole numbers: save it again")
    shapes = [
        list(saved.tensors[f"weights.{i}"].shape) for i in range(len(hidden) + 1) if f"weights.{i}" in saved.tensors
    ]
    if shapes != [[members, a, b] for a, b in pairwise(widths)]:
        raise FileFormatError(f"the saved weights {shapes} do not fit the widths {widths}; save the value again")
    norm = saved.fact("norm", str)
    if norm not in ("batch", "layer", "none"):
        raise FileFormatError(f"the saved value has norm={norm[:40]!r}; expected batch, layer or none: save it again")
    try:
        value = ValueNetwork(dim, members=members, hidden=tuple(hidden), norm=norm, generator=torch.Generator())
        value.load_state_dict(saved.tensors)
    except (RuntimeError, TypeError, ValueError, ArithmeticError) as error:
        why = " ".join(str(error).split())[:200]
        raise FileFormatError(f"the saved tensors are not those of a value network: {why}") from error
    return value.eval()
