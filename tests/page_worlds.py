"""What pages take for granted besides a network and rows: a trainer, a gallery, a detector with its images."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import metricopt as mo
from metricopt.adapters import DynamicBias, adapt
from metricopt.paper.learned.settings import MetaTraining
from metricopt.task.oracle import Oracle
from metricopt.task.quadratic import QuadraticTask


def frameworks(folder: Path) -> dict[str, Any]:
    """Transformers, PEFT, Lightning and scikit-learn, each with a model that was trained in it."""
    lightning, peft = pytest.importorskip("lightning"), pytest.importorskip("peft")
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from tests.integrations.hugging_face import Sentences, bert, pad, trainer

    trained = trainer(folder / "trainer")
    trained.train()
    config = peft.LoraConfig(r=2, target_modules=["query", "value"], task_type="SEQ_CLS")
    rows = {name: [Sentences(80, seed)[i] for i in range(80)] for name, seed in (("train", 0), ("val", 1))}
    data = {name: (pad(each), torch.tensor([row["labels"] for row in each])) for name, each in rows.items()}
    for inputs, _ in data.values():
        inputs.pop("labels")
    lora = peft.get_peft_model(bert(), config).eval()
    return {
        "trainer": trained, "lightning": lightning, "make_pipeline": make_pipeline, "columns": StandardScaler(),
        "lora": lora, **data,
    }  # fmt: skip


def gallery(_: Path) -> dict[str, Any]:
    """An embedding network and 40 classes, of which 20 are the gallery's."""
    draw = torch.Generator().manual_seed(0)
    centres = torch.randn(40, 6, generator=draw)
    classes = torch.arange(40).repeat_interleave(8)
    x = centres[classes] + 0.8 * torch.randn(320, 6, generator=draw)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 4))
    old = classes < 20
    return {
        "net": net, "x": x[old], "classes": classes[old], "x_gallery": x[~old], "gallery_classes": classes[~old]
    }  # fmt: skip


def microscopes(folder: Path) -> dict[str, Any]:
    """A small Faster R-CNN, and two folders in VOC's layout with images like those it was trained on."""
    pillow = pytest.importorskip("PIL.Image")
    from tests.detection.tiny import squares, trained

    names = ("background", "RBC", "WBC")
    for place, count, seed in (("old_microscope", 12, 0), ("new_microscope", 24, 1)):
        for part in ("Annotations", "JPEGImages", "ImageSets/Main"):
            (folder / place / part).mkdir(parents=True)
        images, targets = squares(count, seed)
        for at, (image, target) in enumerate(zip(images, targets, strict=True)):
            pixels = (255 * image).byte().permute(1, 2, 0).contiguous()
            pillow.fromarray(pixels.numpy()).save(folder / place / "JPEGImages" / f"{at}.png")
            boxes = zip(target["boxes"].int().tolist(), target["labels"].tolist(), strict=True)
            parts = [
                f"<object><name>{names[label]}</name><bndbox><xmin>{x}</xmin><ymin>{y}</ymin><xmax>{right}</xmax>"
                f"<ymax>{bottom}</ymax></bndbox></object>"
                for (x, y, right, bottom), label in boxes
            ]
            (folder / place / "Annotations" / f"{at}.xml").write_text(f"<annotation>{''.join(parts)}</annotation>")
        (folder / place / "ImageSets/Main/train.txt").write_text("\n".join(map(str, range(count))))
    return {"detector": trained(20)}


def learned(_: Path) -> dict[str, Any]:
    """A model with a phi, its loss and a cost, and tasks to learn an optimizer on."""
    torch.manual_seed(0)
    model = adapt(nn.Linear(4, 3), DynamicBias(dim=4))
    x, y = torch.randn(30, 4), torch.arange(30) % 3

    def closure() -> torch.Tensor:
        model.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        return loss

    def cost_of(model: nn.Module) -> float:
        return float((model(x).argmax(1) != y).float().mean())

    return {"model": model, "closure": closure, "cost_of": cost_of, "oracle": Oracle(QuadraticTask(dim=3))}


def few_iterations(**settings: Any) -> MetaTraining:
    """Meta-training as a page has it, but over in a second."""
    return MetaTraining(**{**settings, "iterations": 4, "steps": 20})


def successors(_: Path) -> dict[str, Any]:
    """Three networks, the rows that two of them are asked about, and those of the third; one with a single output."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(1200, 4, generator=draw)
    y = (x[:, 0] + 0.5 * torch.randn(1200, generator=draw) > 0.5).long()
    torch.manual_seed(0)
    nets = [
        nn.Sequential(nn.Linear(4, width), nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, 2)) for width in (8, 6, 8)
    ]
    parts = [(x[at : at + 300], y[at : at + 300]) for at in range(0, 1200, 300)]
    names = ("net", "other", "third_net", "train", "val", "more", "new")
    return {"metric": "macro_f1", "scorer": nn.Linear(4, 1), **dict(zip(names, (*nets, *parts), strict=True))}


WORLDS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "README.md": frameworks,
    "docs/how-to/retrieval.md": gallery,
    "docs/how-to/detection.md": microscopes,
    "docs/learned.md": learned,
    "docs/transfer.md": successors,
}
"""For some pages what they take for granted, made in a folder in which their blocks will run."""

assert mo.MetaTraining is MetaTraining
