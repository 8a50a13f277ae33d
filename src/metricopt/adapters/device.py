"""The border between phi, truth and metrics, in the processor's memory, and a model that may be on another device.

What crosses it towards the model takes on the model's device and floating type; predictions come back. So random
streams, the search and the value function know one device, and give the same answers whatever the model's.
"""

import torch
from torch import Tensor

from metricopt.adapters import AdaptedModel
from metricopt.core.tree import placed
from metricopt.data.dataset import Examples

_PROBE = 8
_ROWS = 4096


def on_model(model: AdaptedModel, tensor: Tensor) -> Tensor:
    """A tensor on the model's device and, if its numbers are floating, of the model's type; differentiably.

    Example:
        >>> from metricopt.adapters import OutputAffine, adapt
        >>> model = adapt(torch.nn.Linear(3, 2).double(), OutputAffine())
        >>> on_model(model, torch.ones(2)).dtype, on_model(model, torch.arange(2)).dtype
        (torch.float64, torch.int64)
    """
    return placed(tensor, model.phi)


def examples_on_model(model: AdaptedModel, examples: Examples) -> Examples:
    """The same for all that a metric of the model itself is given.

    Example:
        >>> from metricopt.adapters import OutputAffine, adapt
        >>> data = Examples(torch.zeros(2, 3), torch.tensor([0, 1]))
        >>> examples_on_model(adapt(torch.nn.Linear(3, 2).double(), OutputAffine()), data).inputs.dtype
        torch.float64
    """
    groups = None if examples.groups is None else on_model(model, examples.groups)
    return Examples(on_model(model, examples.inputs), on_model(model, examples.targets), groups)


def host_outputs(model: AdaptedModel, phi: Tensor, inputs: Tensor) -> Tensor:
    """Outputs for shared inputs without a graph, (population, n, ...), in the processor's memory.

    On another device than the processor, whose memory is scarcer, inputs go there some thousand at a time.

    Example:
        >>> from metricopt.adapters import OutputAffine, adapt
        >>> model = adapt(torch.nn.Linear(3, 2), OutputAffine())
        >>> host_outputs(model, torch.zeros(5, model.dim), torch.ones(4, 3)).shape
        torch.Size([5, 4, 2])
    """
    whole = model.phi.device.type == "cpu" or len(inputs) <= _ROWS or not rows_apart(model, inputs)
    with torch.no_grad():
        blocks = [
            model.outputs(phi, on_model(model, part)).cpu() for part in inputs.split(len(inputs) if whole else _ROWS)
        ]
    return blocks[0] if len(blocks) == 1 else torch.cat(blocks, 1)


def rows_apart(model: AdaptedModel, inputs: Tensor) -> bool:
    """Whether the outputs of a few rows do not depend on the rows beside them.

    Example:
        >>> from metricopt.adapters import OutputAffine, adapt
        >>> nets = torch.nn.Linear(3, 2), torch.nn.Sequential(
        ...     torch.nn.BatchNorm1d(3, track_running_stats=False), torch.nn.Linear(3, 2))
        >>> rows = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
        >>> [rows_apart(adapt(net, OutputAffine()), rows) for net in nets]
        [True, False]
    """
    probe, origin = on_model(model, inputs[: 2 * _PROBE]), torch.zeros(1, model.dim, device=model.phi.device)
    with torch.no_grad():
        together, alone = model.outputs(origin, probe), model.outputs(origin, probe[:_PROBE])
    beside = together[:, : alone.shape[1]]
    return beside.shape == alone.shape and torch.allclose(beside, alone, rtol=1e-4, atol=1e-5, equal_nan=True)
