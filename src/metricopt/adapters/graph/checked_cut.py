"""Whether a network can be cut before the first layer that phi reaches: tried on a few rows."""

import torch
from torch import Tensor

from metricopt.adapters import AdaptedModel
from metricopt.adapters.graph.recall import Recall
from metricopt.adapters.graph.split import Cut
from metricopt.adapters.graph.trace import CutError
from metricopt.core.tree import Tree, opened, row_count, rows, tensors_of


def checked_cut(model: AdaptedModel, probe: Tree) -> tuple[str, Cut | None]:
    """The cut, if it does what the model does on a few rows; otherwise what is wrong."""
    if model.half_type is not None:
        return f"the network is of {model.half_type}, whose rounding hides whether a cut is right", None
    if model.moves_weights:
        return "phi moves the weights of all layers", None
    try:
        cut = Cut(model, probe)
        crossing = cut.before(probe)
    except CutError as error:
        return str(error), None
    alone = cut.before(rows(probe, slice(0, max(1, (row_count(probe) or 1) // 2))))
    if not all(_alike(part, whole[: len(part)]) for part, whole in zip(alone, crossing, strict=True)):
        return "its rows influence each other", None
    before = [tensor.clone() for tensor in crossing]
    draw = torch.Generator().manual_seed(0)
    phi = torch.randn(2, model.dim, generator=draw).to(model.phi)
    with torch.no_grad():
        pairs = [
            (tensors_of(opened(cut.output(member, crossing))), tensors_of(opened(model.output(member, probe))))
            for member in phi
        ]
        same = all(_alike(a, b) for one, other in pairs for a, b in zip(one, other, strict=True))
    if not all(torch.equal(a, b) for a, b in zip(before, crossing, strict=True)):
        return "it overwrites activations that would be kept", None
    return ("", cut) if same else ("its trace computes something else than the network", None)


def recall_of(model: AdaptedModel, probe: Tree) -> tuple[str, Recall | None]:
    """What recalls single examples instead of cutting the network; otherwise what is wrong."""
    try:
        return "", Recall(model, probe)
    except CutError as error:
        return str(error), None


def _alike(a: Tensor, b: Tensor) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:  # autocast inside forward leaves no trace
        return False
    if not a.is_floating_point():
        return torch.equal(a, b)
    size = float(b.abs().amax()) if b.numel() else 0.0
    return torch.allclose(a, b, rtol=1e-4, atol=1e-5 * max(size, 1e-6), equal_nan=True)
