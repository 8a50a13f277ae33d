"""A callback of transformers' Trainer that improves the model at the end of training."""

from typing import Any, Unpack

from metricopt.api.result import Result
from metricopt.core.extras import needed
from metricopt.integrations.huggingface import from_trainer
from metricopt.integrations.settings import Settings
from metricopt.integrations.weights import take_weights
from metricopt.metrics.adopted import Goal

needed("transformers", extra="huggingface", purpose="MetricOptTrainerCallback")

from transformers import TrainerCallback  # noqa: E402


class MetricOptTrainerCallback(TrainerCallback):
    """Runs `from_trainer` when training ends; what is accepted becomes the weights of the trainer's model.

    Attributes:
        result: What was found; None before the end of training.

    Example:
        >>> trainer.add_callback(MetricOptTrainerCallback(trainer, metric="eval_f1", queries=100))  # doctest: +SKIP
        >>> trainer.train()  # doctest: +SKIP
    """

    def __init__(
        self, trainer: Any, *, metric: Any, goal: Goal | None = None, queries: int = 200, **settings: Unpack[Settings]
    ) -> None:
        """Say what to improve.

        Args:
            trainer: The trainer it is added to.
            metric: As of `from_trainer`.
            goal: As of `from_trainer`.
            queries: As of `from_trainer`.
            settings: Further arguments of `optimize`.
        """
        self.result: Result | None = None
        self._trainer = trainer
        self._metric, self._queries, self._settings = metric, queries, settings
        self._goal: Goal | None = goal

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Finetune, and take the weights over if they are better."""
        trainer = self._trainer
        self.result = from_trainer(
            trainer, metric=self._metric, goal=self._goal, queries=self._queries, **self._settings
        )
        take_weights(trainer.accelerator.unwrap_model(trainer.model), self.result)
