"""From a network and the description of an adapter to an adapted model, and back."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from metricopt.adapters.freezing import freeze, placement, release
from metricopt.adapters.layers import survey
from metricopt.adapters.model import AdaptedModel
from metricopt.adapters.spec import Adapter
from metricopt.core.errors import AdapterError
from metricopt.core.reading import Read, Reader, reader_of
from metricopt.core.seeding import stream
from metricopt.core.tree import Call, Tree, call, each, placed, rows


def adapt(
    net: nn.Module, spec: Adapter, *, seed: int = 0, example: Tree = None, call: Call = call, read: Read = None
) -> AdaptedModel:
    """`net` frozen, in eval mode, and modulated by one vector phi = 0; `remove` undoes it.

    Args:
        net: A pre-trained network; it is not copied.
        spec: An adapter, or a sum of several.
        seed: Seed of the adapter's fixed random matrices.
        example: A batch of inputs. The network is run on it once, to see in which order it calls its layers and how
            many outputs it has, which otherwise is guessed from its definition; `merge` checks itself on a few rows.
            It goes to the network's device by itself.
        call: How the network is called: `net(x)`, `net(*x)` or `net(**x)`, by what x is.
        read: Which tensor of its output labels, scores and views are made of: a function, a name or a place; by itself
            a tensor, `.logits`, `["out"]` and the like, or a tuple's first is recognised.

    Example:
        >>> from metricopt.adapters import FiLM, OutputAffine
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
        >>> model = adapt(net, FiLM(dim=16) + OutputAffine())
        >>> model.dim, [name for name, parameter in model.named_parameters() if parameter.requires_grad]
        (22, ['phi'])
    """
    if isinstance(net, AdaptedModel):
        raise AdapterError("the network is adapted already; adapt(model.net, model.spec + another) has both adapters")
    device, dtype = placement(net)
    if example is not None:
        like = torch.empty(0, device=device, dtype=dtype)
        example = each(lambda tensor: placed(tensor, like), example)
    flags = freeze(net)
    try:
        found = survey(net, each(Tensor.clone, example), call=call)
        reader = Reader() if example is None else reader_of(found.output, read)
        gives_list = isinstance(found.output, list)
        found = replace(found, output=reader(found.output) if reader and example is not None else found.output)
        modulations = [
            part.bind(found, stream(seed, "adapter", index, type(part).__name__))
            for index, part in enumerate(spec.parts)
        ]
        return AdaptedModel(
            net,
            spec,
            modulations,
            seed=seed,
            flags=flags,
            call=call,
            reader=reader,
            gives_list=gives_list,
            check=None if example is None else each(lambda t: t.detach().clone(), rows(example, slice(0, 8))),
        )
    except BaseException:
        release(net, flags)
        raise


def remove(model: AdaptedModel) -> nn.Module:
    """The network the model was made of, its modes and gradient flags as they were before.

    Example:
        >>> from metricopt.adapters import DynamicBias
        >>> net = nn.Linear(4, 3)
        >>> remove(adapt(net, DynamicBias())) is net and net.training and net.weight.requires_grad
        True
    """
    release(model.net, model.flags)
    return model.net


def merge(model: AdaptedModel, example: Tree = None) -> nn.Module:
    """The same as `model.merge(example)`.

    Example:
        >>> from metricopt.adapters import DynamicBias
        >>> type(merge(adapt(nn.Linear(4, 3), DynamicBias()))).__name__
        'Linear'
    """
    return model.merge(example)
