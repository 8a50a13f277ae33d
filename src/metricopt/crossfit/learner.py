"""What finetuning needs to know of a problem: a network, its loss on a batch, and which of its weights learn."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from metricopt.adapters import AdaptedModel
from metricopt.adapters.detector import behind_body, is_detector
from metricopt.adapters.device import on_model
from metricopt.adapters.graph.recall import together
from metricopt.adapters.layers import BATCH_NORM, CONVOLUTION, SAMPLE_NORM
from metricopt.core.tree import row_count, rows
from metricopt.crossfit.draws import folds_of, several_a_class
from metricopt.crossfit.settings import CrossFit
from metricopt.data.dataset import Batch, Data
from metricopt.data.sampling import PerClass
from metricopt.losses import aucpr, log_odds, raw_logits
from metricopt.task.loss_rule import LossRule
from metricopt.task.out_of_fold import OutOfFoldTask
from metricopt.task.supervised import Recalled, vectorises

Tuned = Literal["weights", "light"]
"""All weights; or the last layer, normalisation and biases only."""

State = dict[str, Tensor]
"""Weights and buffers by name; of several networks with one more dimension in front."""


@dataclass(frozen=True, eq=False)
class Learner:
    """A network to finetune copies of.

    Attributes:
        task: The problem: its model's network is the original and stays as it is, its search data are learnt from.
        settings: Of the finetuning.
        tuned: Which weights learn.
        train_mode: Whether copies learn in train mode: dropout on, statistics of normalisation following the rows.
        ranks: Whether a loss about the order of scores is followed instead of the task's.
    """

    task: OutOfFoldTask
    settings: CrossFit
    tuned: Tuned = "weights"
    train_mode: bool = True
    ranks: bool = False

    @property
    def rule(self) -> LossRule:
        """The loss that is followed."""
        if not self.ranks:
            return self.task.loss_rule
        scores = raw_logits if self.task.metric.on == "logits" else log_odds
        return LossRule("aucpr", lambda output, truth: aucpr(self.model.read(output), truth, scores=scores))

    @property
    def model(self) -> AdaptedModel:
        """The adapted model."""
        return self.task.model

    @property
    def val(self) -> Data:
        """Rows to learn from."""
        return self.task.search

    @property
    def a_class(self) -> int | None:
        """Rows of each class in a mini-batch, where the loss is about pairs of a class; None where it is not."""
        sampling = self.task.sampling
        return sampling.rows if isinstance(sampling, PerClass) else None

    def folds(self, seed: int) -> Tensor:
        """Fold of each row, (n,); of a metric about unseen classes no class is in two folds."""
        return folds_of(self.val, self.settings.folds, seed=seed, by_class=self.task.metric.resampling.by_class)

    def few(self, count: int) -> Tensor:
        """About so many rows to try a step on."""
        every = torch.arange(len(self.val))
        if self.a_class is None:
            return every[:count]
        return self._several(every, batches=1, size=max(count, 2 * self.a_class))[0]

    def _several(self, rows: Tensor, *, batches: int, size: int) -> Tensor:
        """Mini-batches of several rows a class, the same every time, (batches, size)."""
        assert self.a_class is not None
        draw = torch.Generator().manual_seed(0)
        return several_a_class(self.val, rows, self.a_class, batches=batches, size=size, generator=draw)

    def obstacle(self) -> str:
        """Why one step on a few rows does not work; empty if it does."""
        rows = self.few(4)
        try:
            loss = self.loss(self.copy(), self.batches(rows, rows[:0], seed=0))
            loss.backward()
        except Exception as error:  # the user's network and loss: whatever they raise
            said = " ".join(str(error).split())[:200]
            return f"one step of finetuning raised {type(error).__name__}: {said}"
        return "" if bool(loss.isfinite()) else f"the loss of the first rows is {float(loss)}"

    def copy(self) -> nn.Module:
        """A copy of the original that is ready to learn."""
        net = copy.deepcopy(self.model.net)
        wanted = set(self.learning())
        for name, parameter in net.named_parameters():
            parameter.requires_grad_(name in wanted)
        net.train(self.train_mode)
        for module in net.modules():
            own = list(module.parameters())
            # What does not learn does not change its statistics either.
            if own and not any(parameter.requires_grad for parameter in own):
                module.eval()
        return net

    def learning(self) -> list[str]:
        """Names of the parameters that learn."""
        return learning(self.model.net, self.tuned, self.model.trainable())

    @property
    def together(self) -> bool:
        """Whether several copies are trained as one population: of convolutions that is slower than one by one."""
        heavy = any(isinstance(module, CONVOLUTION) for module in self.model.net.modules())
        return self.task.simple and not heavy and self.model.phi.device.type == "cpu" and self._vectorises()

    def _vectorises(self) -> bool:
        """Whether the loss of several copies can be computed at once: not if it chooses pairs by what it holds."""
        (batch,) = self.batches(self.few(8), self.few(0)[:0], seed=0)
        with torch.no_grad():
            output = self.model.called(self.model.net, self.rule.inputs(batch))
        return vectorises(self.rule.function, torch.stack([output, output]), torch.stack([batch.targets] * 2))

    def batches(self, own: Tensor, rest: Tensor, *, seed: int) -> list[Batch]:
        """Validation and training rows of a step: as one batch of single tensors, else as one batch of each."""
        wanted = [(data, rows) for data, rows in ((self.val, own), (self.task.train, rest)) if len(rows)]
        if self.model.gives_list and self.task.cache.recall is not None:
            for data, _ in wanted:
                self.task.cache.fill(data)
            kept = [self.task.recalled(data, rows) for data, rows in wanted]
            if all(batch is not None for batch in kept):
                return [batch for batch in kept if batch is not None]
        parts = [data.batch(rows, seed=seed) for data, rows in wanted]
        if self.task.simple and len(parts) == 2:
            one, other = parts
            parts = [Batch(torch.cat([one.inputs, other.inputs]), torch.cat([one.targets, other.targets]))]
        return [Batch(*(on_model(self.model, part) for part in batch)) for batch in parts]

    def loss(self, net: nn.Module, batches: list[Batch]) -> Tensor:
        """Mean loss of a network over the batches, by their rows."""
        losses = [self._loss(net, batch) for batch in batches]
        if len(losses) == 1:
            return losses[0].reshape(())
        counts = [row_count(batch.targets) or 1 for batch in batches]
        weights = torch.tensor(counts).to(losses[0]) / sum(counts)
        return (torch.stack([loss.reshape(()) for loss in losses]) * weights).sum()

    def _loss(self, net: nn.Module, batch: Batch) -> Tensor:
        if not isinstance(batch.inputs, Recalled):
            return self.rule.value(self.model.called(net, self.rule.inputs(batch), call=self.rule.call), batch)
        recall, examples = self.task.cache.recall, batch.inputs.examples
        assert recall is not None
        whole = together(examples)
        if whole is not None:
            with recall.recalling(net, whole):
                return self._loss(net, batch._replace(inputs=whole.inputs))
        single = [Batch(Recalled([one]), rows(batch.targets, slice(at, at + 1))) for at, one in enumerate(examples)]
        return torch.stack([self._loss(net, one).reshape(()) for one in single]).mean()

    def mean_loss(
        self, net: nn.Module, rows: Tensor, *, by_class: bool = False, tick: Callable[[int], None] = lambda _: None
    ) -> float:
        """Mean loss of a network in eval mode on some validation rows, or the mean of its means by class."""
        if by_class:
            assert self.val.classes is not None
            classes = self.val.classes[rows]
            parts = [self.mean_loss(net, rows[classes == label], tick=tick) for label in torch.unique(classes)]
            return sum(parts) / len(parts)
        net.eval()
        parts = self._parts(rows)
        total = 0.0
        with torch.no_grad():
            for some in parts:
                total += float(self.loss(net, self.batches(some, some[:0], seed=0))) * len(some)
                tick(0)
        return total / sum(map(len, parts))

    def _parts(self, rows: Tensor) -> Sequence[Tensor]:
        """All rows in parts of a batch; where classes have to come together, as many batches as training has."""
        if self.a_class is None:
            return rows.split(self.settings.batch)
        size = self.a_class * max(2, self.settings.batch // self.a_class)
        return list(self._several(rows, batches=-(-len(rows) // size), size=size))


def learning(net: nn.Module, tuned: Tuned, trainable: Mapping[str, bool]) -> list[str]:
    """Names of the parameters that learn: none that the user had frozen, unless all were; of a detector's body none.

    Example:
        >>> net = nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.Linear(3, 2), nn.Linear(2, 2))
        >>> learning(net, "light", {})
        ['0.bias', '1.weight', '1.bias', '2.bias', '3.weight', '3.bias']
        >>> learning(net, "weights", {name: name.startswith("3") for name, _ in net.named_parameters()})
        ['3.weight', '3.bias']
    """
    every = behind_body(net) if is_detector(net) else [name for name, _ in net.named_parameters()]
    names = [name for name in every if trainable.get(name, True)] or every
    if tuned == "weights":
        return names
    norms = {name for name, module in net.named_modules() if isinstance(module, BATCH_NORM + SAMPLE_NORM)}
    light = norms | {names[-1].rpartition(".")[0]}
    return [name for name in names if name.rpartition(".")[0] in light or name.rpartition(".")[2] == "bias"]
