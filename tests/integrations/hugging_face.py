"""A small BERT of transformers that says yes too seldom, with its data, for the tests of integrations."""

from typing import Any

import torch
from sklearn.metrics import f1_score
from tests.api.any_models import Sentences, pad
from torch import nn
from transformers import BertConfig, BertForSequenceClassification, EvalPrediction, Trainer, TrainingArguments

from metricopt.crossfit import CrossFit
from metricopt.crossfit.settings import Kind

# One finetuning of two folds: what is tested is the way in and out, not how much is gained.
EFFORT = CrossFit(folds=2, epochs=2, batch=64, rates=(2.5e-3,), kinds=(Kind(False, 1.0),), alphas=(1.0,), tuned=1)

QUICK = CrossFit(folds=2, epochs=25, batch=64, rates=(8e-3,), kinds=(Kind(True, 1.0),), alphas=(1.0,), tuned=1)


def bert() -> BertForSequenceClassification:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    return BertForSequenceClassification(BertConfig(vocab_size=30, max_position_embeddings=16, **sizes))


def scores(prediction: EvalPrediction) -> dict[str, float]:
    labels = prediction.predictions.argmax(-1)
    return {"f1": float(f1_score(prediction.label_ids, labels)), "yes": float(labels.mean())}


def trainer(folder: Any, model: nn.Module | None = None, *, steps: int = 30, **more: Any) -> Trainer:
    data = {"train_dataset": Sentences(200, 0), "eval_dataset": Sentences(200, 1)}
    settings = TrainingArguments(
        output_dir=str(folder),
        max_steps=steps,
        per_device_train_batch_size=32,
        per_device_eval_batch_size=64,
        learning_rate=5e-3,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        save_strategy="no",
        logging_strategy="no",
        **more.pop("args", {}),
    )
    given = {**data, "compute_metrics": scores, **more}
    return Trainer(model=bert() if model is None else model, args=settings, data_collator=pad, **given)
