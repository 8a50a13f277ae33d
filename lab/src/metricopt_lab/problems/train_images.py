"""Training of image networks by SGD that can be killed at any moment and goes on with the same bits.

Everything random is a function of the seed and the epoch or step, so that weights, momentum and a step number are all
there is to keep.
"""

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor, nn

from metricopt.core import files
from metricopt.core.errors import DataError, FileFormatError, MetricOptError
from metricopt.core.seeding import derived_seed, stream
from metricopt.data.dataset import Examples
from metricopt.losses import Loss
from metricopt_lab.problems.augmentation import Views, plain_views, random_views

VERSION = 1
KIND = "training"

Watch = Callable[[int, int, str], None]
"""Called after each step with steps done, steps in all, and what there is to say."""


@final
@dataclass(frozen=True)
class Plan:
    """How a network is trained: SGD with Nesterov momentum, a rate that rises to `lr` and falls along a cosine.

    Attributes:
        epochs: Passes over the images.
        batch_size: Images a step; those left over at the end of an epoch wait for the next.
        lr: Highest learning rate.
        weight_decay: Of weights and biases alike.
        augment: Whether each image is seen mirrored or not, and shifted by up to 4 pixels, at random.
        momentum: Of SGD.
        warmup: Part of the steps in which the rate rises.
        seed: Of order, augmentation and dropout.
        channels_last: Whether images and weights lie channels-last in memory; which is faster depends on the network.

    Example:
        >>> plan = Plan(epochs=2, batch_size=10, lr=0.1, augment=False)
        >>> [round(plan.rate(step, total=20), 3) for step in (0, 2, 3, 10, 19)]
        [0.033, 0.1, 0.1, 0.064, 0.001]
    """

    epochs: int
    batch_size: int
    lr: float
    augment: bool
    weight_decay: float = 5e-4
    momentum: float = 0.9
    warmup: float = 0.15
    seed: int = 0
    channels_last: bool = True

    def __post_init__(self) -> None:
        if min(self.epochs, self.batch_size) < 1 or not 0 < self.lr < math.inf:
            raise DataError(
                f"{self.epochs} epochs with {self.batch_size} images a step and learning rate {self.lr} were asked "
                f"for; expected at least 1 of each and a positive rate"
            )

    @property
    def layout(self) -> torch.memory_format:
        """How images and weights lie in memory."""
        return torch.channels_last if self.channels_last else torch.contiguous_format

    def rate(self, step: int, *, total: int) -> float:
        """Learning rate of a step of `total`."""
        rising = self.warmup * total
        falling = (step - rising) / (total - rising)
        return self.lr * min((step + 1) / max(rising, 1), (1 + math.cos(math.pi * max(falling, 0))) / 2)


@final
@dataclass(frozen=True)
class Epoch:
    """What an epoch came to: mean loss of its steps, accuracy on the validation images after it, and time spent.

    Example:
        >>> Epoch(loss=0.9, accuracy=0.7, seconds=60.0) == Epoch(loss=0.9, accuracy=0.7, seconds=70.0)
        True
    """

    loss: float
    accuracy: float
    seconds: float = field(default=0.0, compare=False)


def train_images(
    net: nn.Module,
    train: Examples,
    validation: Examples,
    plan: Plan,
    *,
    loss: Loss,
    folder: Path,
    about: Mapping[str, Any] | None = None,
    resume: bool = False,
    save_every: float = 120.0,
    watch: Watch | None = None,
) -> list[Epoch]:
    """Train `net` in place, leave it in eval mode, and give what each epoch came to.

    A resumed training ends with the bits of an uninterrupted one, on the same machine with as many threads. torch's
    global random state is as it was before.

    Args:
        net: Network for (images, channels, height, width), on the device of the images; laid out as planned.
        train: What it is trained on.
        validation: What its accuracy is told on.
        plan: How it is trained.
        loss: `loss(outputs, targets)` giving a scalar.
        folder: Where the state is kept, after each epoch and in between.
        about: Further facts that must be the same when it is resumed, as the names of model and loss.
        resume: Whether to go on with a training in the folder, if there is one.
        save_every: Seconds between two savings within an epoch.
        watch: Called after each step.

    Example:
        >>> import tempfile
        >>> from metricopt.losses import cross_entropy
        >>> data = Examples(torch.rand(40, 1, 4, 4, generator=stream(0, "x")), torch.arange(40) % 2)
        >>> data.inputs[::2] -= 1
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
        >>> plan = Plan(epochs=3, batch_size=10, lr=0.1, augment=False)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     train_images(net, data, data, plan, loss=cross_entropy, folder=Path(folder))[-1].accuracy
        1.0
    """
    run = _Run(net.to(memory_format=plan.layout), train, plan, loss)  # pyright: ignore[reportCallIssue]
    facts = {**asdict(plan), **(about or {}), **_identity(net, train, validation)}
    _enter(run, folder, facts, resume=resume)
    saved = time.monotonic()
    with torch.random.fork_rng(devices=[train.inputs.device] if train.inputs.is_cuda else []):
        for views in run.remaining():
            began = time.monotonic()
            run.advance(views)
            ended = run.step % run.steps == 0
            right = accuracy(net, validation) if ended else 0.0
            run.seconds += time.monotonic() - began
            if ended:
                run.end_epoch(right)
            if ended or time.monotonic() - saved >= save_every:
                files.save(folder, KIND, {"settings": facts, **run.facts()}, run.tensors(), version=VERSION)
                saved = time.monotonic()
            if watch is not None:
                watch(run.step, run.total, run.words())
    net.eval()
    return run.history


def accuracy(net: nn.Module, data: Examples) -> float:
    """Part of the images whose class has the highest output; the network is in eval mode afterwards.

    Example:
        >>> accuracy(nn.Flatten(), Examples(torch.eye(2).view(2, 2, 1, 1), torch.tensor([0, 0])))
        0.5
    """
    net.eval()
    with torch.no_grad():
        right = [
            (net(inputs.contiguous(memory_format=torch.channels_last)).argmax(1) == targets).sum()
            for inputs, targets in zip(data.inputs.split(500), data.targets.split(500), strict=True)
        ]
    return int(torch.stack(right).sum()) / len(data)


class _Run:
    """The state of a training: all that a checkpoint has to hold."""

    def __init__(self, net: nn.Module, train: Examples, plan: Plan, loss: Loss) -> None:
        self.net, self.train, self.plan, self.loss = net, train, plan, loss
        self.optimizer = torch.optim.SGD(
            net.parameters(), lr=plan.lr, momentum=plan.momentum, weight_decay=plan.weight_decay, nesterov=True
        )
        self.momenta = {name: torch.zeros_like(parameter) for name, parameter in net.named_parameters()}
        for name, parameter in net.named_parameters():
            # Ours from the first step on: a buffer of torch's making may have other strides than a restored one,
            # and other strides may round differently.
            self.optimizer.state[parameter]["momentum_buffer"] = self.momenta[name]
        self.steps = len(train) // plan.batch_size
        if self.steps == 0:
            raise DataError(
                f"{len(train)} images are fewer than the {plan.batch_size} of one step; expected at least as many: "
                f"give more images or a smaller batch size"
            )
        self.total = plan.epochs * self.steps
        self.step, self.loss_sum, self.seconds = 0, 0.0, 0.0  # the sums are of the present epoch
        self.history: list[Epoch] = []

    def remaining(self) -> Iterator[Views]:
        """Mini-batches from the present step on."""
        size = self.plan.batch_size
        for epoch in range(self.step // self.steps, self.plan.epochs):
            order = torch.randperm(len(self.train), generator=stream(self.plan.seed, "train images", "order", epoch))
            draw = stream(self.plan.seed, "train images", "views", epoch)
            views = random_views(order, draw) if self.plan.augment else plain_views(order)
            for step in range(self.step % self.steps, self.steps):
                yield views.some(slice(step * size, (step + 1) * size))

    def advance(self, views: Views) -> None:
        """One step of SGD."""
        torch.manual_seed(derived_seed(self.plan.seed, "train images", "dropout", self.step))
        for group in self.optimizer.param_groups:
            group["lr"] = self.plan.rate(self.step, total=self.total)
        self.net.train()
        images = views.of(self.train.inputs).contiguous(memory_format=self.plan.layout)
        value = self.loss(self.net(images), self.train.targets[views.rows])
        self.optimizer.zero_grad()
        value.backward()
        self.optimizer.step()
        self.step += 1
        self.loss_sum += float(value.detach())
        if not math.isfinite(self.loss_sum):
            raise MetricOptError(
                f"the loss is {float(value.detach())} at step {self.step} of {self.total}; expected a finite number: "
                f"give a lower learning rate (it is {self.plan.lr})"
            )

    def end_epoch(self, right: float) -> None:
        """Put down what the epoch came to, `right` being its accuracy."""
        self.history.append(Epoch(self.loss_sum / self.steps, right, round(self.seconds, 1)))
        self.loss_sum, self.seconds = 0.0, 0.0

    def words(self) -> str:
        """How the training is doing."""
        within = self.step % self.steps
        mean = self.loss_sum / within if within else self.history[-1].loss
        text = f"epoch {-(-self.step // self.steps)}/{self.plan.epochs}, loss {mean:.4f}"
        return text + (f", validation accuracy {self.history[-1].accuracy:.4f}" if self.history else "")

    def facts(self) -> dict[str, Any]:
        """What is no tensor."""
        sums = {"step": self.step, "loss_sum": self.loss_sum, "seconds": self.seconds}
        return {**sums, "history": [asdict(epoch) for epoch in self.history]}

    def tensors(self) -> dict[str, Tensor]:
        """Weights, running statistics and momenta."""
        weights = {f"net.{name}": tensor for name, tensor in self.net.state_dict().items()}
        return weights | {f"momentum.{name}": tensor for name, tensor in self.momenta.items()}

    def restore(self, saved: files.Saved) -> None:
        """Go on from what was saved."""
        for name, tensor in self.tensors().items():
            found = saved.tensors.get(name)
            if found is None or found.shape != tensor.shape or found.dtype != tensor.dtype:
                raise FileFormatError(f"the saved training lacks {name!r} as it is now; expected the same network")
            tensor.copy_(found)
        self.history = [_epoch(record) for record in saved.fact("history", list)]
        self.step = saved.fact("step", int)
        try:
            self.loss_sum, self.seconds = (float(saved.fact(name, (int, float))) for name in ("loss_sum", "seconds"))
        except OverflowError as error:
            raise FileFormatError(f"the saved training has sums that are none ({error}); start anew") from error
        if not 0 <= self.step <= self.total or len(self.history) != self.step // self.steps:
            raise FileFormatError(
                f"the saved training is at step {str(self.step)[:40]} of {self.total} after {len(self.history)} "
                f"epochs; expected one epoch every {self.steps} steps: start anew"
            )


def _epoch(record: Any) -> Epoch:
    try:
        return Epoch(*(float(record[name]) for name in ("loss", "accuracy", "seconds")))
    except (TypeError, LookupError, ValueError, OverflowError) as error:
        raise FileFormatError(
            f"the saved training has the epoch {str(record)[:60]!r}; the file is damaged: start anew"
        ) from error


def _enter(run: _Run, folder: Path, facts: dict[str, Any], *, resume: bool) -> None:
    if not (folder / f"{KIND}.json").exists():
        return
    if not resume:
        raise FileFormatError(f"{folder} holds a training already; expected a new folder: resume it or choose another")
    saved = files.load(folder, KIND, version=VERSION)
    before = saved.fact("settings", dict)
    for name, value in facts.items():
        if before.get(name) != value:
            raise FileFormatError(
                f"the training in {folder} cannot be resumed: {name} was {before.get(name)!r:.80} and is "
                f"{value!r}; expected no difference: undo it or choose a new folder"
            )
    run.restore(saved)


def _identity(net: nn.Module, train: Examples, validation: Examples) -> dict[str, str]:
    """What must be the same for a training to go on: the first weights, the data, and the version of torch."""
    return {
        "first_weights": _digest(*net.state_dict().values()),
        "train": _digest(train.inputs, train.targets),
        "validation": _digest(validation.inputs, validation.targets),
        "torch": torch.__version__,
    }


def _digest(*tensors: Tensor) -> str:
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]
