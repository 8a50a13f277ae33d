"""The border between phi, truth and metrics, in the processor's memory, and a model that may be on another device.

What crosses it towards the model takes on the model's device and floating type; predictions come back. So random
streams, the search and the value function know one device, and give the same answers whatever the model's.
"""

import torch

from metricopt.adapters.model import AdaptedModel
from metricopt.core.tree import Tree, each, placed, row_count, rows

_PROBE = 8


def on_model(model: AdaptedModel, tree: Tree) -> Tree:
    """Tensors on the model's device and, if their numbers are floating, of the model's type; differentiably.

    Example:
        >>> from metricopt.adapters import OutputAffine, adapt
        >>> model = adapt(torch.nn.Linear(3, 2).double(), OutputAffine())
        >>> on_model(model, torch.ones(2)).dtype, on_model(model, torch.arange(2)).dtype
        (torch.float64, torch.int64)
    """
    like = model.like
    return each(lambda tensor: placed(tensor, like), tree)


def rows_apart(model: AdaptedModel, inputs: Tree) -> bool:
    """Whether the outputs of a few rows do not depend on the rows beside them.

    Example:
        >>> from metricopt.adapters import OutputAffine, adapt
        >>> nets = torch.nn.Linear(3, 2), torch.nn.Sequential(
        ...     torch.nn.BatchNorm1d(3, track_running_stats=False), torch.nn.Linear(3, 2))
        >>> data = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
        >>> [rows_apart(adapt(net, OutputAffine()), data) for net in nets]
        [True, False]
    """
    if row_count(inputs) is None:
        return False
    probe = on_model(model, rows(inputs, slice(0, 2 * _PROBE)))
    origin = torch.zeros(1, model.dim, device=model.phi.device)
    with torch.no_grad():
        together = model.outputs(origin, probe)
        alone = model.outputs(origin, rows(probe, slice(0, _PROBE)))
    beside = together[:, : alone.shape[1]]
    return beside.shape == alone.shape and torch.allclose(beside, alone, rtol=1e-4, atol=1e-5, equal_nan=True)
