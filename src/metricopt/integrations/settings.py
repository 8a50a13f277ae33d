"""What every integration hands on to `optimize`, by name and type."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

from metricopt.adapters import Adapter
from metricopt.api.ways import Effort, Tune
from metricopt.core.reading import Read
from metricopt.crossfit import CrossFit
from metricopt.metrics import Constraint
from metricopt.paper.preset import Preset
from metricopt.run.events import Listener
from metricopt.search import Recipe


class Settings(TypedDict, total=False):
    """Further arguments of `optimize`, each as documented there.

    Example:
        >>> Settings(seed=1, tune="adapter")
        {'seed': 1, 'tune': 'adapter'}
    """

    seed: int
    loss: Any
    holdout: Any
    adapter: Adapter | None
    tune: Tune | None
    effort: Effort | CrossFit
    confidence: float
    learn_from_val: bool
    preset: Preset
    recipe: Recipe | None
    batch_size: int
    keep: Sequence[Constraint]
    read: Read
    run_dir: Path | str | None
    resume: bool
    watch: Sequence[Listener]
    progress: bool | None
