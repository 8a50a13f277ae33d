"""Seven kinds of models and data, each small, each with something to gain: what `optimize` must take as it is."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

import metricopt as mo


@dataclass
class Case:
    """What `optimize` is given beside seed and queries."""

    net: nn.Module
    metric: Any
    train: Any
    val: Any
    more: dict[str, Any] = field(default_factory=dict)

    def optimize(self, **settings: Any) -> mo.Result:
        return mo.optimize(self.net, metric=self.metric, train=self.train, val=self.val, **{**self.more, **settings})


def draw(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def trained(net: nn.Module, loss: Callable[[], Tensor], *, steps: int = 80, lr: float = 0.02) -> nn.Module:
    optimizer = torch.optim.Adam(net.parameters(), lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    return net.eval()


# 1. A Hugging Face-style module: dict batches, an output record, an attention mask, padding by the collator.


class ModelOutput(dict[str, Any]):
    """As transformers has it: a mapping whose items are attributes too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(30, 16)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 2)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor | None = None) -> ModelOutput:
        weights = attention_mask[..., None].float()
        pooled = (self.norm(self.embedding(input_ids)) * weights).sum(1) / weights.sum(1)
        logits = self.head(pooled)
        loss = None if labels is None else functional.cross_entropy(logits, labels)
        return ModelOutput(loss=loss, logits=logits)


class Sentences(Dataset[dict[str, Any]]):
    def __init__(self, rows: int, seed: int) -> None:
        generator = draw(seed)
        self.read = 0
        lengths = torch.randint(3, 9, (rows,), generator=generator).tolist()
        self.ids = [torch.randint(1, 30, (length,), generator=generator) for length in lengths]
        self.labels = [int((ids < 6).sum() >= 2) for ids in self.ids]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, i: int) -> dict[str, Any]:
        self.read += 1
        return {"input_ids": self.ids[i], "labels": self.labels[i]}


def pad(rows: list[dict[str, Any]]) -> dict[str, Tensor]:
    ids = nn.utils.rnn.pad_sequence([row["input_ids"] for row in rows], batch_first=True)
    return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": torch.tensor([r["labels"] for r in rows])}


def hugging_face() -> Case:
    torch.manual_seed(0)
    data, net = Sentences(400, 0), Classifier()
    batch = pad([data[i] for i in range(200)])
    net = trained(net, lambda: net(**batch).loss, steps=25)
    net.head.bias.data += torch.tensor([1.5, 0.0])
    return Case(net, "f1", data, Sentences(500, 1), {"collate": pad})


# 2. A segmentation network: dense logits under ["out"].


class Segmenter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 2, 1))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"out": self.body(x)}


def mean_iou(y_true: Any, labels: Any) -> float:
    both, either = ((y_true == 1) & (labels == 1)).sum(), ((y_true == 1) | (labels == 1)).sum()
    return float(both / max(either, 1))


def segmentation() -> Case:
    def images(rows: int, seed: int) -> tuple[Tensor, Tensor]:
        truth = torch.rand(rows, 8, 8, generator=draw(seed)) < 0.15
        return truth[:, None] + 0.6 * torch.randn(rows, 1, 8, 8, generator=draw(seed + 9)), truth.long()

    torch.manual_seed(1)
    (x, y), net = images(200, 0), Segmenter()
    loss = lambda out, target: functional.cross_entropy(out["out"], target)  # noqa: E731
    net = trained(net, lambda: loss(net(x), y), steps=60)
    return Case(net, mo.Metric(mean_iou, on="labels", goal="max"), (x, y), images(240, 1), {"loss": loss})


# 3. Several labels an example.


def multi_label() -> Case:
    def rows(count: int, seed: int) -> tuple[Tensor, Tensor]:
        x = torch.randn(count, 6, generator=draw(seed))
        return x, (x[:, :3] + 0.5 * torch.randn(count, 3, generator=draw(seed + 9)) > 1.0).long()

    torch.manual_seed(2)
    x, y = rows(400, 0)
    net = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
    loss = lambda out, target: functional.binary_cross_entropy_with_logits(out, target.float())  # noqa: E731
    net = trained(net, lambda: loss(net(x), y))

    def macro(y_true: Any, labels: Any) -> float:
        both = (y_true & labels).sum(0)
        return float((2 * both / (y_true.sum(0) + labels.sum(0)).clip(1)).mean())

    return Case(net, mo.Metric(macro, on="labels", goal="max", name="macro F1"), (x, y), rows(600, 1), {"loss": loss})


# 4. Regression.


def regression() -> Case:
    def rows(count: int, seed: int, shift: float) -> tuple[Tensor, Tensor]:
        x = torch.randn(count, 4, generator=draw(seed)) + shift
        return x, (x[:, :1] * 2 + x[:, 1:2] ** 2 + 0.2 * torch.randn(count, 1, generator=draw(seed + 9))) / 4

    torch.manual_seed(3)
    x, y = rows(400, 0, 0.0)
    net = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
    net = trained(net, lambda: functional.mse_loss(net(x), y))
    metric = mo.Metric(
        lambda y_true, values: float(abs(y_true - values).mean()),
        on="logits",
        goal="min",
        bounds=(0.0, 20.0),
        name="MAE",
    )
    return Case(net, metric, (x, y), rows(600, 1, 0.8), {"loss": functional.mse_loss})


# 5. Two inputs, a dict output without a telling name.


class Matcher(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(5, 8), nn.Linear(3, 8)
        self.norm = nn.BatchNorm1d(8)
        self.head = nn.Linear(8, 2)

    def forward(self, left: Tensor, right: Tensor) -> dict[str, Tensor]:
        hidden = torch.relu(self.norm(self.left(left) + self.right(right)))
        return {"hidden": hidden, "match": self.head(hidden)}


def two_inputs() -> Case:
    def rows(count: int, seed: int) -> tuple[tuple[Tensor, Tensor], Tensor]:
        left = torch.randn(count, 5, generator=draw(seed))
        right = torch.randn(count, 3, generator=draw(seed + 9))
        return (left, right), (left[:, 0] + right[:, 0] > 1.6).long()

    torch.manual_seed(4)
    (pair, y), net = rows(400, 0), Matcher()
    loss = lambda out, target: functional.cross_entropy(out["match"], target)  # noqa: E731
    net = trained(net, lambda: loss(net(*pair), y), steps=30)
    return Case(net, "f1", (pair, y), rows(600, 1), {"loss": loss, "read": "match"})


# 6. A detector-like module: a list of images of different sizes in, a list of dicts out.


class Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.score = nn.Conv2d(8, 1, 1)

    def maps(self, images: list[Tensor]) -> list[Tensor]:
        return [self.score(torch.relu(self.norm(self.conv(image[None]))))[0, 0] for image in images]

    def forward(self, images: list[Tensor]) -> list[dict[str, Tensor]]:
        found = []
        for scores in self.maps(images):
            places = (scores > 0).nonzero().float()
            boxes = torch.cat([places.flip(1), places.flip(1) + 1], 1)
            found.append({"boxes": boxes, "scores": scores[scores > 0].sigmoid(), "map": scores})
        return found


def detector_loss(output: list[dict[str, Tensor]], targets: list[dict[str, Tensor]]) -> Tensor:
    losses = [
        functional.binary_cross_entropy_with_logits(found["map"], target["mask"])
        for found, target in zip(output, targets, strict=True)
    ]
    return torch.stack(losses).mean()


def box_f1(targets: list[dict[str, Tensor]], found: list[dict[str, Tensor]]) -> float:
    right = said = there = 0
    for target, one in zip(targets, found, strict=True):
        wanted = {tuple(box.tolist()) for box in target["boxes"]}
        given = {tuple(box.tolist()) for box in one["boxes"]}
        right, said, there = right + len(wanted & given), said + len(given), there + len(wanted)
    return 2 * right / max(said + there, 1)


def detector() -> Case:
    def images(rows: int, seed: int) -> tuple[list[Tensor], list[dict[str, Tensor]]]:
        generator = draw(seed)
        inputs, targets = [], []
        for _ in range(rows):
            height, width = torch.randint(6, 10, (2,), generator=generator).tolist()
            mask = (torch.rand(height, width, generator=generator) < 0.12).float()
            places = mask.nonzero().float().flip(1)
            inputs.append((mask + 0.5 * torch.randn(height, width, generator=generator))[None])
            targets.append({"boxes": torch.cat([places, places + 1], 1), "mask": mask})
        return inputs, targets

    torch.manual_seed(5)
    (x, y), net = images(60, 0), Detector()
    net = trained(net, lambda: detector_loss(net(x), y), steps=40)
    metric = mo.Metric(box_f1, on="outputs", goal="max")
    return Case(net, metric, (x, y), images(80, 1), {"loss": detector_loss, "batch_size": 16})


# 7. A generator, judged by exact matches of what it writes.


class Generator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(12, 24)
        self.norm = nn.LayerNorm(24)
        self.head = nn.Linear(24, 10)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(torch.relu(self.norm(self.embedding(tokens)).cumsum(1)))

    def generate(self, tokens: Tensor, length: int = 2) -> Tensor:
        for _ in range(length):
            tokens = torch.cat([tokens, self(tokens)[:, -1:].argmax(-1)], 1)
        return tokens[:, -length:]


def exact_match(model: Any, inputs: Tensor, targets: Tensor) -> float:
    return float((model.generate(inputs) == targets[:, -2:]).all(1).float().mean())


def generator() -> Case:
    def rows(count: int, seed: int) -> tuple[Tensor, Tensor]:
        tokens = torch.randint(0, 5, (count, 3), generator=draw(seed))
        first = tokens.sum(1) % 10
        return tokens, torch.stack([tokens[:, 1], first, (first + 1) % 10], 1)

    torch.manual_seed(6)
    (x, y), net = rows(600, 0), Generator()
    loss = lambda out, target: functional.cross_entropy(out[:, -1], target[:, 1])  # noqa: E731
    longer = torch.cat([x, y[:, 1:2]], 1)
    both = lambda: loss(net(x), y) + functional.cross_entropy(net(longer)[:, -1], y[:, 2])  # noqa: E731
    net = trained(net, both, steps=150, lr=0.01)
    net.head.bias.data[3:6] += 3.0
    return Case(net, mo.Metric(exact_match, on="model", goal="max"), (x, y), rows(500, 1), {"loss": loss})


CASES: dict[str, Callable[[], Case]] = {
    build.__name__: build
    for build in (hugging_face, segmentation, multi_label, regression, two_inputs, detector, generator)
}
