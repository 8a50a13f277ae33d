"""Pre-training of small networks: seconds, the same bits each time, and once only where a cache is given."""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from metricopt.core.errors import DataError, FileFormatError
from metricopt.core.seeding import derived_seed, stream
from metricopt.core.writing import write_bytes
from metricopt.data.dataset import Examples
from metricopt.data.sampling import Sampling, batch_stream
from metricopt.losses import Loss, cross_entropy

VERSION = "pretrain-1"
"""Part of every cache key: to be raised when a change of this file changes the weights."""

Progress = Callable[[int, float], None]
"""Called after each epoch with its number and its mean loss."""


def pretrain(
    net: nn.Module,
    train: Examples,
    *,
    loss: Loss = cross_entropy,
    epochs: int = 5,
    batch_size: int = 256,
    lr: float = 0.01,
    weight_decay: float = 1e-4,
    sampling: Sampling = "plain",
    seed: int = 0,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> nn.Module:
    """`net` itself, trained by Adam with one cycle of the learning rate and left in eval mode.

    torch's global random state, which dropout draws from, is as it was before.

    Args:
        net: Network, initialised.
        train: What it is trained on.
        loss: `loss(outputs, targets)` giving a scalar.
        epochs: Passes over the rows, or as many mini-batches as that takes if they are balanced.
        batch_size: Rows a mini-batch.
        lr: Highest learning rate.
        weight_decay: Of Adam, on weights and biases alike.
        sampling: "plain" for all rows in random order, "balanced" to draw each class equally often, or `PerClass`.
        seed: Of order and dropout.
        cache: Folder of weights trained before, under a name that covers all that determines them.
        progress: Called after each epoch with its number and its mean loss; not if the cache had the weights.

    Example:
        >>> data = Examples(torch.eye(4).repeat(50, 1), torch.tensor([0, 1, 1, 0]).repeat(50))
        >>> net = pretrain(nn.Linear(4, 2), data, epochs=20, batch_size=20, lr=0.1)
        >>> bool((net(data.inputs).argmax(1) == data.targets).all()), net.training
        (True, False)
    """
    settings = {
        "epochs": epochs, "batch_size": batch_size, "lr": lr, "weight_decay": weight_decay,
        "sampling": sampling if isinstance(sampling, str) else repr(sampling), "seed": seed,
    }  # fmt: skip
    path = None if cache is None else cache / f"{_key(net, train, loss, settings)}.safetensors"
    if path is not None and path.exists():
        net.load_state_dict(_loaded(path))
        return net.eval()
    batches = _batches(train, batch_size=batch_size, sampling=sampling, generator=stream(seed, "pretrain", "order"))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(seed, "pretrain", "dropout"))
        _train(net, batches, loss, epochs=epochs, steps=max(1, len(train) // batch_size), lr=lr,
               weight_decay=weight_decay, progress=progress)  # fmt: skip
    if path is not None:
        write_bytes(path, save(dict(net.state_dict())))
    return net.eval()


def _train(
    net: nn.Module,
    batches: Iterator[tuple[Tensor, Tensor]],
    loss: Loss,
    *,
    epochs: int,
    steps: int,
    lr: float,
    weight_decay: float,
    progress: Progress | None,
) -> None:
    optimizer = torch.optim.Adam(net.parameters(), lr=lr, weight_decay=weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=lr, total_steps=epochs * steps)
    net.train()
    for epoch in range(epochs):
        total = 0.0
        for _ in range(steps):
            inputs, targets = next(batches)
            value = loss(net(inputs), targets)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            schedule.step()
            total += float(value.detach())
        if progress is not None:
            progress(epoch + 1, total / steps)


def _batches(
    train: Examples, *, batch_size: int, sampling: Sampling, generator: torch.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Endless mini-batches: of all rows in random order, again and again, or as classes are drawn."""
    if sampling != "plain":
        for inputs, targets in batch_stream(train, 1, batch_size=batch_size, sampling=sampling, generator=generator):
            yield inputs[0], targets[0]
    size = min(batch_size, len(train))
    while True:
        order = torch.randperm(len(train), generator=generator)
        # The last rows are left out of this round: BatchNorm cannot train on a batch of one.
        for index in order[: len(train) // size * size].split(size):
            yield train.inputs[index], train.targets[index]


def _key(net: nn.Module, train: Examples, loss: Loss, settings: dict[str, object]) -> str:
    """Hash of all that determines the trained weights: code, architecture, first weights, data, loss, settings."""
    facts = [VERSION, torch.__version__, repr(net), _name(loss), settings]
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for name, tensor in (*sorted(net.state_dict().items()), ("inputs", train.inputs), ("targets", train.targets)):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:32]


def _name(loss: Loss) -> str:
    name = getattr(loss, "__qualname__", "")
    if not name or "<" in name:
        raise DataError(
            f"the loss {loss!r} has no name of its own to keep weights under; expected a function defined in a module: "
            f"define one or leave out cache"
        )
    return f"{loss.__module__}.{name}"


def _loaded(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise FileFormatError(
            f"{path} is damaged ({error}); expected weights in safetensors format: delete the file to train again"
        ) from error
