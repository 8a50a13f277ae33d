"""The last layer on its own: what it is given is the same for every finetuning that leaves the others alone."""

from copy import deepcopy

import torch
from torch import Tensor, nn

from metricopt.data.dataset import Examples
from metricopt_lab.rivals.weights.state import State, state_of

_ROWS_AT_ONCE = 4096


class Head(nn.Module):
    """The last linear layer of a network, with outputs of the network's own shape.

    Example:
        >>> net = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1), nn.Flatten(0))
        >>> Head(net, torch.zeros(4, 3))(torch.zeros(5, 2)).shape
        torch.Size([5])
    """

    def __init__(self, net: nn.Module, example: Tensor) -> None:
        super().__init__()
        self._name, last = _last_linear(net)
        self.linear = deepcopy(last)
        with torch.inference_mode():
            self._one = net.eval()(example[:2]).ndim == 1

    def forward(self, features: Tensor) -> Tensor:
        """Outputs of rows of features."""
        outputs = self.linear(features)
        return outputs.squeeze(-1) if self._one else outputs

    def whole(self, net: nn.Module, state: State) -> State:
        """The state of the whole network with a head's state in it."""
        return state_of(net) | {name.replace("linear", self._name, 1): tensor for name, tensor in state.items()}


def features_of(net: nn.Module, data: Examples) -> Examples:
    """Rows as the last linear layer is given them, in eval mode.

    Example:
        >>> net = nn.Sequential(nn.ReLU(), nn.Linear(1, 1))
        >>> features_of(net, Examples(torch.tensor([[-1.0]]), torch.tensor([0]))).inputs
        tensor([[0.]])
    """
    caught: list[Tensor] = []
    hook = _last_linear(net)[1].register_forward_pre_hook(lambda _, given: caught.append(given[0]))
    try:
        with torch.no_grad():
            for some in data.inputs.split(_ROWS_AT_ONCE):
                net.eval()(some)
    finally:
        hook.remove()
    return Examples(torch.cat(caught), data.targets)


def _last_linear(net: nn.Module) -> tuple[str, nn.Linear]:
    return [(name, module) for name, module in net.named_modules() if isinstance(module, nn.Linear)][-1]
