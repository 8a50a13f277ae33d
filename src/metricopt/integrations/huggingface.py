"""Hugging Face: what a Trainer has trained is finetuned until its metric is better."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Unpack

import torch
from torch import nn
from torch.utils.data import DataLoader

from metricopt.api.optimize import optimize
from metricopt.api.result import Result
from metricopt.core.errors import DataError, MetricError, UnknownNameError
from metricopt.core.extras import needed
from metricopt.integrations.settings import Settings
from metricopt.metrics import Metric, as_metric
from metricopt.metrics.adopted import Goal
from metricopt.metrics.scikit_learn import is_scorer
from metricopt.metrics.torch_metrics import is_torchmetric

_PREFIX = "eval_"
_PADDING = -100  # as Trainer pads


def from_trainer(
    trainer: Any,
    *,
    metric: Any,
    goal: Goal | None = None,
    queries: int = 200,
    val: Any = None,
    **settings: Unpack[Settings],
) -> Result:
    """Finetune the model of a transformers Trainer after training, with its datasets, collator and own loss.

    The model of the trainer stays as it is: `result.merge()` is the improved one, `result.save_pretrained` writes it.

    Args:
        trainer: With train_dataset and eval_dataset, which must be apart.
        metric: An entry of what the trainer's compute_metrics gives, such as "eval_f1"; a function of an
            `EvalPrediction` giving one number; or anything else that `optimize` takes.
        goal: "max" or "min", for an entry or a function. It may be left out for entries called like a metric that is
            known here, such as f1, and for the trainer's metric_for_best_model.
        queries: How often the metric may be asked.
        val: The rows to ask about, if not the trainer's eval_dataset.
        settings: Further arguments of `optimize`.

    Example:
        >>> result = from_trainer(trainer, metric="eval_f1", queries=100)  # doctest: +SKIP
        >>> result.save_pretrained("better")  # doctest: +SKIP
    """
    needed("transformers", extra="huggingface", purpose="from_trainer")
    check_trainer(trainer, val)
    rows = loader(trainer.get_train_dataloader(), trainer.args.train_batch_size)
    asked = loader(trainer.get_eval_dataloader(val), trainer.args.eval_batch_size)
    own = _own_loss(trainer)
    if own is not None:
        settings.setdefault("loss", own)
    model = plain_model(trainer)
    chosen = metric_of(trainer, metric, goal, sequences=_labels_are_sequences(asked))
    return optimize(model, metric=chosen, train=rows, val=asked, queries=queries, **settings)


def check_trainer(trainer: Any, val: Any = None) -> None:
    """Raises unless a Trainer has what is needed."""
    eval_dataset = trainer.eval_dataset if val is None else val
    for name, dataset in (("train_dataset", trainer.train_dataset), ("eval_dataset", eval_dataset)):
        if dataset is None:
            raise DataError(
                f"the Trainer has no {name}; expected one to finetune on and one to ask the metric about: "
                f"Trainer(..., train_dataset=..., eval_dataset=...)"
            )
    if isinstance(eval_dataset, Mapping):
        raise DataError(
            f"the Trainer's eval_dataset is a dict of {', '.join(map(repr, eval_dataset))}; expected one data set: "
            f"from_trainer(..., val=trainer.eval_dataset[{next(iter(eval_dataset), 'name')!r}])"
        )
    odd = [name for name in ("batch_eval_metrics", "include_for_metrics") if getattr(trainer.args, name)]
    if odd:
        raise MetricError(
            f"the Trainer's arguments have {odd[0]}={getattr(trainer.args, odd[0])!r}; expected compute_metrics to "
            f"be asked about all predictions and labels, and nothing else: leave it out, or pass a metric of your own"
        )


def plain_model(trainer: Any) -> nn.Module:
    """A copy of the trainer's model as it is without the trainer: in its own precision, whatever is cast around it."""
    model: nn.Module = copy.deepcopy(trainer.accelerator.unwrap_model(trainer.model))
    if "_original_forward" in vars(model):  # accelerate puts autocast around it
        for name in ("forward", "_original_forward"):
            vars(model).pop(name)
    return model


def loader(given: DataLoader[Any], batch_size: int) -> DataLoader[Any]:
    """The same rows through the same collator, without what accelerate does around batches."""
    return DataLoader(given.dataset, batch_size=batch_size, collate_fn=given.collate_fn)


def metric_of(trainer: Any, metric: Any, goal: Goal | None, *, sequences: bool) -> Metric:
    """A metric from an entry of compute_metrics, from a function of an EvalPrediction, or from anything else."""
    known = isinstance(metric, Metric) or is_scorer(metric) or is_torchmetric(metric)
    if known or not (isinstance(metric, str) or callable(metric)):
        return as_metric(metric)
    if isinstance(metric, str) and trainer.compute_metrics is None:
        return _named_alone(metric)
    name = metric.removeprefix(_PREFIX) if isinstance(metric, str) else _name(metric)
    if isinstance(metric, str):
        _check_logged(trainer, name)
    alike = _known(name) if isinstance(metric, str) else None
    compute = trainer.compute_metrics if isinstance(metric, str) else metric
    return Metric(
        Computed(compute, name if isinstance(metric, str) else None, trainer.preprocess_logits_for_metrics),
        on="outputs" if sequences else "logits",
        goal=goal or _goal(trainer, name, alike),
        bounds=None if alike is None else alike.bounds,
        name=name,
    )


@dataclass(frozen=True)
class Computed:
    """A compute_metrics function as a metric: of truth and outputs, giving one number.

    Attributes:
        compute: The function of an EvalPrediction.
        key: Which entry of its answer; None if it answers with a number.
        preprocess: The Trainer's preprocess_logits_for_metrics.

    Example:
        >>> import numpy as np
        >>> right = Computed(lambda p: {"accuracy": (p.predictions.argmax(-1) == p.label_ids).mean()}, "accuracy")
        >>> float(right(np.array([0, 1]), np.array([[1.0, 0.0], [2.0, 0.0]])))
        0.5
    """

    compute: Callable[[Any], Any]
    key: str | None = None
    preprocess: Callable[[Any, Any], Any] | None = None

    def __call__(self, y_true: Any, outputs: Any) -> Any:
        """What the function answers; an error if the entry is not there."""
        from transformers import EvalPrediction

        labels, predictions = _padded(y_true), _predictions(outputs)
        if self.preprocess is not None:
            predictions = self.preprocess(torch.as_tensor(predictions), torch.as_tensor(labels)).numpy()
        answer = self.compute(EvalPrediction(predictions=predictions, label_ids=labels))
        if self.key is None:
            return answer
        for name in (self.key, _PREFIX + self.key):
            if isinstance(answer, Mapping) and name in answer:
                return answer[name]
        raise MetricError(_missing(self.key, answer))


def _missing(key: str, answer: Any) -> str:
    found = ", ".join(map(repr, answer)) if isinstance(answer, Mapping) else type(answer).__name__
    return (
        f"compute_metrics gives {found or 'nothing'}, but no {key!r}; expected the entry to improve: name one of these"
    )


def _check_logged(trainer: Any, key: str) -> None:
    """An evaluation that the Trainer has made tells what there is, without a call."""
    if key == "loss":
        raise MetricError(
            "metric is 'eval_loss', which is followed anyway; expected an entry of compute_metrics, such as 'eval_f1'"
        )
    logged = [set(entry) for entry in trainer.state.log_history if f"{_PREFIX}loss" in entry]
    if logged and _PREFIX + key not in logged[-1]:
        own = [name.removeprefix(_PREFIX) for name in sorted(logged[-1]) if name.startswith(_PREFIX)]
        timing = ("loss", "runtime", "samples_per_second", "steps_per_second", "model_preparation_time")
        raise MetricError(_missing(key, dict.fromkeys(name for name in own if name not in timing)))


def _named_alone(name: str) -> Metric:
    if name.startswith(_PREFIX):
        plain = name.removeprefix(_PREFIX)
        raise MetricError(
            f"metric is {name!r}, but the Trainer has no compute_metrics; expected one that gives {plain!r}: "
            f"Trainer(..., compute_metrics=...), or metric={plain!r}"
        )
    return as_metric(name)


def _known(name: str) -> Metric | None:
    try:
        return as_metric(name)
    except UnknownNameError:
        return None


def _goal(trainer: Any, name: str, alike: Metric | None) -> Goal:
    best = trainer.args.metric_for_best_model
    if best is not None and best.removeprefix(_PREFIX) == name and trainer.args.greater_is_better is not None:
        return "max" if trainer.args.greater_is_better else "min"
    if alike is not None:
        return alike.goal
    raise MetricError(f"which way metric {name!r} is better is not known; expected it to be said: goal='max' or 'min'")


def _labels_are_sequences(asked: DataLoader[Any]) -> bool:
    dataset: Any = asked.dataset
    batch = asked.collate_fn([dataset[0]])
    labels = batch.get("labels") if isinstance(batch, Mapping) else None
    return isinstance(labels, torch.Tensor) and labels.dim() > 1


def _own_loss(trainer: Any) -> Callable[[Any, Any], Any] | None:
    compute = trainer.compute_loss_func
    return None if compute is None else lambda output, targets: compute(output, targets)


def _predictions(outputs: Any) -> Any:
    """As Trainer hands them over: all that the model gives but the loss, alone or as a tuple."""
    if not isinstance(outputs, Mapping):
        return outputs
    parts = tuple(_padded(part) for name, part in outputs.items() if name not in ("loss", "past_key_values"))
    return parts[0] if len(parts) == 1 else parts


def _padded(part: Any) -> Any:
    """Sequences of different lengths as one array."""
    if not isinstance(part, list):
        return part
    rows = [torch.as_tensor(row) for row in part]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=_PADDING).numpy()


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
