"""One function of phi evaluated for a population of vectors: by vmap, or by a loop where vmap cannot go."""

from collections.abc import Callable
from typing import final

import torch
from torch import Tensor
from torch.func import vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from metricopt.core.errors import AdapterError
from metricopt.core.tree import Tree, each, tensors_of

At = Callable[[Tensor, Tree], Tensor]


@final
class Population:
    """A function of one phi as a function of many, vectorised as long as that works.

    Args:
        at: The function: outputs at phi (dim,) for inputs (n, ...).
        vectorises: Whether vmap is tried at all.

    Example:
        >>> several = Population(lambda phi, x: phi.sum() * x)
        >>> several(torch.ones(3, 2), torch.ones(4), paired=False).shape, several.vectorises
        (torch.Size([3, 4]), True)
    """

    def __init__(self, at: At, *, vectorises: bool = True) -> None:
        self.vectorises = vectorises
        self._at = at

    def __call__(self, phi: Tensor, inputs: Tree, *, paired: bool, heavy: bool = False) -> Tensor:
        """Outputs at each row of phi, (population, n, ...); `heavy` if one member is work enough for a processor."""
        # For one or two members vmap's own work is more than it saves; for heavy ones it only takes more memory.
        if not self.vectorises or len(phi) <= 2 or heavy:
            return one_by_one(self._at, phi, inputs, paired=paired)
        try:
            return all_at_once(self._at, phi, inputs, paired=paired)
        except AdapterError:
            raise
        except Exception:
            # Data-dependent control flow, .item() and the like; an error of the network itself comes again here.
            result = one_by_one(self._at, phi, inputs, paired=paired)
            self.vectorises = False
            return result


def all_at_once(at: At, phi: Tensor, inputs: Tree, *, paired: bool) -> Tensor:
    """`at(phi[i], inputs)` for all i in one batched computation; `inputs[i]` if paired.

    Example:
        >>> all_at_once(lambda phi, x: phi.sum() * x, torch.ones(3, 2), torch.ones(4), paired=False).shape
        torch.Size([3, 4])
    """
    # The fused attention kernels have no batching rule on every device; vmap would loop over them, and warn.
    with sdpa_kernel(SDPBackend.MATH):
        # Networks that drop out even in eval mode draw afresh for each member, as a loop would.
        if paired:
            return vmap(at, randomness="different")(phi, inputs)
        return vmap(lambda member: at(member, inputs), randomness="different")(phi)


def one_by_one(at: At, phi: Tensor, inputs: Tree, *, paired: bool) -> Tensor:
    """The same by a Python loop.

    Example:
        >>> one_by_one(lambda phi, x: phi.sum() * x, torch.ones(3, 2), torch.ones(4), paired=False).shape
        torch.Size([3, 4])
    """
    batches = [each(lambda tensor, i=i: tensor[i], inputs) if paired else inputs for i in range(len(phi))]
    members = [at(member, batch) for member, batch in zip(phi, batches, strict=True)]
    return members[0].unsqueeze(0) if len(members) == 1 else torch.stack(members)


def check_population(phi: Tensor, inputs: Tree, *, dim: int, paired: bool) -> None:
    """Raise unless phi is (population, dim) and, if paired, every input has a first axis of size population."""
    if phi.ndim != 2 or phi.shape[1] != dim or not len(phi):
        raise AdapterError(
            f"phi has shape {tuple(phi.shape)}; expected (population, {dim}) with one row or more: a single vector is "
            f"phi.unsqueeze(0)"
        )
    sizes = {tuple(tensor.shape[:1]) for tensor in tensors_of(inputs)}
    if paired and sizes != {(len(phi),)}:
        raise AdapterError(
            f"{len(phi)} vectors are paired with inputs whose first axes are {sorted(sizes)}; expected one batch for "
            f"each vector: (population, n, ...), or paired=False for inputs that all share"
        )
