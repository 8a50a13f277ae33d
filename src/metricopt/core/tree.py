"""The inputs of a network: one tensor, a tuple of positional ones, or a mapping of keyword ones."""

from collections.abc import Callable, Mapping

from torch import Tensor, nn

Inputs = Tensor | tuple[Tensor, ...] | Mapping[str, Tensor]


def call(net: nn.Module, inputs: Inputs) -> object:
    """The network's output for inputs of any of the three forms.

    Example:
        >>> import torch
        >>> call(nn.Bilinear(2, 3, 4), (torch.ones(5, 2), torch.ones(5, 3))).shape
        torch.Size([5, 4])
    """
    if isinstance(inputs, Tensor):
        return net(inputs)
    return net(**inputs) if isinstance(inputs, Mapping) else net(*inputs)


def each(change: Callable[[Tensor], Tensor], inputs: Inputs) -> Inputs:
    """The same inputs with every tensor changed.

    Example:
        >>> import torch
        >>> each(lambda tensor: tensor[:1], {"a": torch.ones(3, 2), "b": torch.ones(3)})
        {'a': tensor([[1., 1.]]), 'b': tensor([1.])}
    """
    if isinstance(inputs, Tensor):
        return change(inputs)
    if isinstance(inputs, Mapping):
        return {name: change(tensor) for name, tensor in inputs.items()}
    return tuple(change(tensor) for tensor in inputs)


def placed(tensor: Tensor, like: Tensor) -> Tensor:
    """A tensor on the device of another and, if its numbers are floating, of the other's type; differentiably.

    Example:
        >>> import torch
        >>> placed(torch.ones(2), torch.zeros(1).double()).dtype, placed(torch.tensor(1), torch.zeros(1)).dtype
        (torch.float64, torch.int64)
    """
    return tensor.to(like.device, like.dtype if tensor.is_floating_point() else tensor.dtype)


def tensors_of(inputs: Inputs) -> tuple[Tensor, ...]:
    """All tensors among the inputs.

    Example:
        >>> import torch
        >>> len(tensors_of((torch.ones(2), torch.ones(3))))
        2
    """
    if isinstance(inputs, Tensor):
        return (inputs,)
    return tuple(inputs.values()) if isinstance(inputs, Mapping) else tuple(inputs)
