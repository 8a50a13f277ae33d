"""A callback of Lightning that improves the module at the end of fitting."""

from typing import Any, Unpack

from metricopt.api.optimize import optimize
from metricopt.api.result import Result
from metricopt.core.extras import needed
from metricopt.data.modules import one_loader
from metricopt.integrations.settings import Settings
from metricopt.integrations.weights import take_weights

needed("lightning", extra="lightning", purpose="MetricOptCallback")

from lightning.pytorch import Callback, LightningModule, Trainer  # noqa: E402


class MetricOptCallback(Callback):
    """Runs `optimize` when fitting ends; what is accepted becomes the weights of the module.

    Attributes:
        result: What was found; None before the end of fitting.

    Example:
        >>> callback = MetricOptCallback(metric="f1", queries=100)
        >>> Trainer(max_epochs=3, callbacks=[callback], logger=False)  # doctest: +SKIP
    """

    def __init__(self, *, metric: Any, queries: int = 200, **settings: Unpack[Settings]) -> None:
        """Say what to improve.

        Args:
            metric: Anything that `optimize` takes.
            queries: How often it may be asked.
            settings: Further arguments of `optimize`. Without a loss, cross-entropy of class targets or squared error.
        """
        self.result: Result | None = None
        self._metric, self._queries, self._settings = metric, queries, settings

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Finetune, and take the weights over if they are better."""
        mode = pl_module.training
        self.result = optimize(
            pl_module,
            metric=self._metric,
            train=one_loader(trainer.train_dataloader, "train"),
            val=one_loader(trainer.val_dataloaders, "val"),
            queries=self._queries,
            **self._settings,
        )
        take_weights(pl_module, self.result)
        pl_module.train(mode)
