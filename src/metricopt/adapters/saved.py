"""Adapted models in files: phi and the adapter, never the network, which the file only recognises."""

import copy
from dataclasses import fields
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from metricopt.adapters.adapting import adapt
from metricopt.adapters.model import AdaptedModel
from metricopt.adapters.spec import ADAPTERS, adapter_from
from metricopt.core.errors import FileFormatError, MetricOptError
from metricopt.core.files import Saved, load, save
from metricopt.core.reading import Read
from metricopt.core.tree import Call, Tree, call

_VERSION = 1


def save_adapter(model: AdaptedModel, folder: Path | str) -> None:
    """Save phi and the adapter of a model.

    Example:
        >>> import tempfile, torch
        >>> from metricopt.adapters import OutputAffine, adapt
        >>> net = nn.Linear(4, 3)
        >>> model = adapt(net, OutputAffine())
        >>> _ = model.phi.data.fill_(0.5)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_adapter(model, folder)
        ...     torch.equal(load_adapter(folder, net).phi, model.phi)
        True
    """
    save(folder, "adapter", adapter_facts(model), model.tensors(), version=_VERSION)


def load_adapter(
    folder: Path | str, net: nn.Module, *, example: Tree = None, call: Call = call, read: Read = None
) -> AdaptedModel:
    """A copy of `net` with the adapter and phi that `save_adapter` saved; another network is refused.

    Args:
        folder: Where it was saved.
        net: The network it was made for.
        example: A batch of inputs, if the model was adapted with one.
        call: How the network is called, if not by the usual rule.
        read: Which tensor of its output is meant, if it was said.
    """
    saved = load(folder, "adapter", version=_VERSION)
    return restored(net, saved, saved.tensors, example=example, call=call, read=read)


def adapter_facts(model: AdaptedModel) -> dict[str, Any]:
    """What a file must say of an adapted model besides its tensors.

    Example:
        >>> from metricopt.adapters import OutputAffine, adapt
        >>> sorted(adapter_facts(adapt(nn.Linear(4, 3), OutputAffine())))
        ['adapters', 'fingerprint', 'seed']
    """
    return {**model.spec_dict(), "fingerprint": model.fingerprint()}


def restored(
    net: nn.Module,
    saved: Saved,
    tensors: dict[str, Tensor],
    *,
    example: Tree = None,
    call: Call = call,
    read: Read = None,
) -> AdaptedModel:
    """The adapted model that facts and tensors describe, on a copy of `net`."""
    adapters, seed = saved.fact("adapters", list), saved.fact("seed", int)
    try:
        for index, part in enumerate(adapters):
            _check_part(part, [tensor for name, tensor in tensors.items() if name.startswith(f"modulations.{index}.")])
        model = adapt(copy.deepcopy(net), adapter_from(adapters), seed=seed, example=example, call=call, read=read)
        model.load_tensors(tensors)
    except FileFormatError:
        raise
    except (MetricOptError, ArithmeticError, TypeError, LookupError, ValueError, RuntimeError, AttributeError) as error:
        why = " ".join(str(error).split())[:300]
        raise FileFormatError(f"the saved adapter does not fit this network: {why}; save it again") from error
    expected, found = saved.fact("fingerprint", str), model.fingerprint()
    if found != expected:
        raise FileFormatError(
            f"the adapter was saved for a model with fingerprint {expected[:16]}, this one has {found}: the network's "
            f"weights or the layers found in it differ; pass the same network, and the example if there was one"
        )
    return model


def _check_part(part: Any, matrices: list[Tensor]) -> None:
    """Before anything is made of it: a damaged size would ask for more memory than there is."""
    if not isinstance(part, dict) or not isinstance(part.get("adapter"), str):
        raise FileFormatError(f"the saved adapter is {str(part)[:80]!r}; the file is damaged: save it again")
    usual = {field.name: field for field in fields(ADAPTERS[part["adapter"]])}
    for name, field in usual.items():
        found, default = part.get(name, field.default), field.default
        if found is None and field.type == int | None:
            continue
        # By the type of the default: a switch may not be a number, nor a number a text.
        if isinstance(default, bool | int | float) and not _of_kind(found, default):
            raise FileFormatError(
                f"the saved adapter has {name}={str(found)[:60]!r}; expected something like {default}: save it again"
            )
    dim = part.get("dim")
    if "dim" in usual and dim is not None and not any(_is_of_dim(matrix, dim) for matrix in matrices):
        raise FileFormatError(f"the saved adapter has dim={str(dim)[:60]} and no matrix of that width: save it again")


def _is_of_dim(matrix: Tensor, dim: Any) -> bool:
    """Whether phi is multiplied by its columns or, of projections to weights, by its rows."""
    return bool(matrix.numel()) and dim in (matrix.shape[:1] + matrix.shape[-1:])


def _of_kind(found: Any, default: bool | int | float) -> bool:
    if isinstance(default, bool) or isinstance(found, bool):
        return isinstance(found, bool) and isinstance(default, bool)
    kinds = int if isinstance(default, int) else (int, float)
    return isinstance(found, kinds) and abs(found) < 2**31
