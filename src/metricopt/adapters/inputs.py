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
