"""The last layer on its own: what it is given stays the same while it learns, so that is computed once."""

import copy
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from metricopt.adapters import WeightDirections, adapt
from metricopt.adapters.device import on_model
from metricopt.core.seeding import stream
from metricopt.crossfit.learner import Learner, State
from metricopt.crossfit.training import Tick
from metricopt.data.dataset import Examples
from metricopt.task.out_of_fold import OutOfFoldTask

_TRAINING_ROWS = 4  # at most, for each validation row: more are hardly drawn, and each is one pass of the network


class LastLinear(nn.Module):
    """A copy of the last linear layer, with outputs of the network's own shape.

    Example:
        >>> LastLinear(nn.Linear(2, 1), ())(torch.zeros(5, 2)).shape
        torch.Size([5])
    """

    def __init__(self, linear: nn.Linear, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.linear, self._shape = copy.deepcopy(linear), shape

    def forward(self, features: Tensor) -> Tensor:
        """Outputs of rows of features."""
        return self.linear(features).reshape(len(features), *self._shape)


@dataclass(frozen=True, eq=False)
class Head:
    """What finetunes the last layer.

    Attributes:
        learner: Of the last layer, on rows as that is given them.
        name: Of the layer in the whole network.
    """

    learner: Learner
    name: str

    def whole(self, state: State) -> State:
        """The states of some last layers, by the names that their weights have in the network."""
        return {f"{self.name}.{name.partition('.')[2]}": tensor for name, tensor in state.items()}


def head_of(learner: Learner, *, seed: int, tick: Tick = lambda _: None) -> Head | None:
    """The last layer of a learner's network; None unless it is linear, learns, and nothing comes after it.

    Args:
        learner: Of the whole network.
        seed: Of which training rows are taken.
        tick: Called after each pass of the network.
    """
    task, net = learner.task, learner.model.net
    found = [(name, module) for name, module in net.named_modules() if isinstance(module, nn.Linear)]
    if not task.simple or not found or f"{found[-1][0]}.weight" not in learner.learning():
        return None
    name, linear = found[-1]
    assert isinstance(task.search, Examples) and isinstance(task.train, Examples)
    few = task.search.rows(torch.arange(min(8, len(task.search))))
    with torch.no_grad():
        outputs = learner.model.call(net, on_model(learner.model, few.inputs))
    seen = _features(learner, linear, few)
    if seen is None:
        return None
    last = LastLinear(linear, tuple(outputs.shape[1:]))
    if linear.out_features != outputs[0].numel() or not torch.allclose(last(seen.inputs.to(outputs)), outputs):
        return None
    most = torch.randperm(len(task.train), generator=stream(seed, "head"))[: _TRAINING_ROWS * len(task.search)]
    parts = [_features(learner, linear, data, tick) for data in (task.train.rows(most.sort().values), task.search)]
    train, val = (part for part in parts if part is not None)
    model = adapt(last, WeightDirections(), example=val.inputs[:2])
    own = OutOfFoldTask(model, metric=task.metric, train=train, search=val, loss=task.loss_rule.function,
                        sampling=task.sampling, batch_size=task.batch_size)  # fmt: skip
    return Head(replace(learner, task=own, tuned="weights"), name)


def _features(learner: Learner, linear: nn.Linear, data: Examples, tick: Tick = lambda _: None) -> Examples | None:
    """Rows as the layer is given them; None if it is not given one row each."""
    caught: list[Tensor] = []
    hook = linear.register_forward_pre_hook(lambda _, given: caught.append(given[0].detach()))
    try:
        with torch.no_grad():
            for some in data.inputs.split(learner.settings.batch):
                learner.model.call(learner.model.net, on_model(learner.model, some))
                tick(0)
    finally:
        hook.remove()
    if any(part.ndim != 2 for part in caught) or sum(map(len, caught)) != len(data):
        return None
    return Examples(torch.cat(caught).to(data.inputs), data.targets, data.groups)
