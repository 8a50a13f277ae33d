"""What `metricopt pretrain` does: a network for CIFAR-10, trained from nothing and kept in a folder."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from metricopt.core.errors import UnknownNameError
from metricopt.core.registry import one_of
from metricopt.core.seeding import derived_seed
from metricopt.losses import LOSSES
from metricopt_lab.data import Cifar10Split
from metricopt_lab.networks import MODELS
from metricopt_lab.problems.pretrained import save_network
from metricopt_lab.problems.train_images import Plan, Watch, accuracy, train_images

PLANS = {
    "small_convnet": Plan(epochs=8, batch_size=64, lr=0.05, augment=True),
    "resnet32": Plan(epochs=30, batch_size=128, lr=0.1, augment=True),
    "nasnet_a": Plan(epochs=8, batch_size=128, lr=0.1, augment=True),
    # Channels-last a step takes almost twice as long here: 1.12 s against .60.
    "resnet18": Plan(epochs=8, batch_size=128, lr=0.1, augment=True, channels_last=False),
}
"""How each network is trained unless told otherwise."""


LONGER = 3
"""Times as many epochs on Tiny ImageNet, with about a third of CIFAR-10's images: each training is half an hour."""


def plan_for(model: str, data: str = "cifar10") -> Plan:
    """The plan of a network by name, for one of the data sets.

    Example:
        >>> plan_for("resnet32").augment
        True
        >>> plan_for("resnet")
        Traceback (most recent call last):
        ...
        metricopt.core.errors.UnknownNameError: model is 'resnet'; expected ...: did you mean 'resnet32'?
    """
    one_of(model, tuple(PLANS), what="model")
    plan = PLANS[model]
    return plan if data == "cifar10" else replace(plan, epochs=LONGER * plan.epochs)


def device_named(name: str) -> torch.device:
    """A device: "cpu", "cuda", or "auto" for a GPU if there is one.

    Example:
        >>> device_named("cpu")
        device(type='cpu')
    """
    one_of(name, ("auto", "cpu", "cuda"), what="device")
    there = torch.cuda.is_available()
    if name == "cuda" and not there:
        raise UnknownNameError("device is 'cuda' and torch sees no GPU; expected one: use 'cpu' or 'auto'")
    return torch.device("cuda" if there and name != "cpu" else "cpu")


def pretrain_images(
    model: str,
    data: Cifar10Split,
    plan: Plan,
    *,
    loss: str = "cross_entropy",
    folder: Path,
    device: torch.device | None = None,
    resume: bool = False,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Facts about the network that was trained and kept in `folder`, for `load_network`.

    Args:
        model: Name in the registry of networks; it gets as many outputs as there are classes, unless these are ten.
        data: Images in three parts; accuracy is told on the validation and, once at the end, on the test images.
        plan: How it is trained; its seed is also that of the first weights.
        loss: Name in the registry of losses.
        folder: Of the network, and of the state that a killed training is resumed from.
        device: Where it is trained; the CPU if None.
        resume: Whether to go on with a training in the folder, if there is one.
        watch: Called after each step.

    Example:
        >>> import tempfile
        >>> from metricopt.data.dataset import Examples
        >>> data = Examples(torch.zeros(8, 3, 32, 32), torch.arange(8))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     facts = pretrain_images("small_convnet", Cifar10Split(data, data, data), Plan(1, 4, 0.01, False),
        ...                             folder=Path(folder))
        >>> facts["images"], facts["validation_accuracy"]
        (8, 0.125)
    """
    device = torch.device("cpu") if device is None else device
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(plan.seed, "pretrain images", "first weights"))
        classes = max(10, 1 + int(data.train.targets.max()))
        options = {} if classes == 10 else {"classes": classes}
        net = MODELS[model](**options).to(device)
    about = {"model": model, "loss": loss, **options}
    train, validation, test = (part.to(device) for part in data)
    history = train_images(
        net, train, validation, plan, loss=LOSSES[loss], folder=folder, about=about, resume=resume, watch=watch
    )
    facts = {
        **about,
        **asdict(plan),
        "images": len(train),
        "validation_accuracy": history[-1].accuracy,
        "test_accuracy": accuracy(net, test),
        "history": [asdict(epoch) for epoch in history],
        "device": device.type,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "seconds": round(sum(epoch.seconds for epoch in history), 1),
    }
    save_network(folder, model, net, facts)
    return facts
