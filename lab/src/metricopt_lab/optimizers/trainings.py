"""Meta-trainings on CIFAR-10 by name: the problem, the settings and where the weights go."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from metricopt.core.errors import UnknownNameError
from metricopt.losses import Loss, cross_entropy
from metricopt.paper.learned.equation_s1_rule import LOSS_ONLY, WITH_TIME, WITH_VALUE, MlpRule
from metricopt.paper.learned.meta_training import MetaTrained, Watch, meta_train
from metricopt.paper.learned.settings import MetaTraining
from metricopt.paper.learned.weights import LearnedWeights, save_optimizer
from metricopt.paper.training import Training
from metricopt_lab.figures.film_paths import film_problem
from metricopt_lab.optimizers.lstm import LstmRule

SEED = 100
"""Of the problem: other images to query, other matrices of FiLM and other mini-batches than any that is reported."""

NETWORK = "small_convnet"


@dataclass(frozen=True)
class NamedTraining:
    """One meta-training.

    Attributes:
        about: What is trained, in words.
        settings: Of Algorithm S1.
        batch_size: Images a mini-batch; a quarter of what finetuning has, for the sake of time.
        loss: What is finetuned on.

    Example:
        >>> TRAININGS["cifar10_aucpr"].settings.steps
        100
    """

    about: str
    settings: MetaTraining
    batch_size: int = 32
    loss: Loss = field(default=cross_entropy)


_AUCPR = MetaTraining(
    rule=MlpRule(features=WITH_TIME, lr=0.02),
    iterations=25,
    steps=100,
    observations=8,
    metric_every=10,
    std=0.03,
    meta_lr=0.03,
    start_std=1.0,
    value=Training(steps=50),
)
_LOSS = replace(_AUCPR, rule=MlpRule(features=LOSS_ONLY, decays=(0.5, 0.9, 0.99, 0.999, 0.9999), lr=0.02), weight=0.0)

TRAININGS: Mapping[str, NamedTraining] = MappingProxyType(
    {
        "cifar10_aucpr": NamedTraining("Eq. S1 with the step's number, AUCPR", _AUCPR),
        "cifar10_aucpr_value": NamedTraining(
            "the same with the gradient of a value function that is kept",
            replace(_AUCPR, rule=MlpRule(features=WITH_VALUE, lr=0.02)),
        ),
        "cifar10_loss": NamedTraining("the MLP of Metz et al., loss only", replace(_LOSS, iterations=15)),
        # Its gradient is that at the weights themselves: noise of next to nothing, and no evolution strategies.
        "cifar10_lstm": NamedTraining(
            "the LSTM of Andrychowicz et al., loss only",
            replace(
                _LOSS,
                rule=LstmRule(),
                iterations=15,
                std=1e-6,
                estimator="reparametrised",
                second_order=False,
                truncation=20,
            ),
        ),
    }
)
"""Meta-trainings by name."""


def run_training(
    name: str, folder: Path, *, scale: str = "small", iterations: int | None = None, watch: Watch | None = None
) -> dict[str, Any]:
    """Meta-train an optimizer by its name, or go on with it, and save it in a folder.

    Args:
        name: One of `TRAININGS`.
        folder: Of the weights and of what is needed to resume.
        scale: Of the problem.
        iterations: Another number than the training's own.
        watch: Told about each iteration.

    Returns:
        What the manifest says about the weights.
    """
    if name not in TRAININGS:
        raise UnknownNameError(f"there is no meta-training named {name!r}; known: {', '.join(TRAININGS)}")
    training = TRAININGS[name]
    settings = training.settings if iterations is None else replace(training.settings, iterations=iterations)
    problem = replace(film_problem(NETWORK, scale=scale, seed=SEED), batch_size=training.batch_size)
    oracle = problem.oracle(queries=None, loss=training.loss)
    began = time.process_time()
    trained = meta_train(oracle, settings, seed=SEED, folder=folder / "training", watch=watch)
    about = _about(training, settings, trained)
    about |= {"problem": problem.notes, "batch_size": training.batch_size, "scale": scale}
    about["cpu_seconds_of_last_process"] = round(time.process_time() - began, 1)
    save_optimizer(LearnedWeights(trained.learned.rule, trained.learned.weights, about), folder)
    return about


def _about(training: NamedTraining, settings: MetaTraining, trained: MetaTrained) -> dict[str, Any]:
    plain = {name: fact for name, fact in asdict(settings).items() if name != "rule"}
    history = [asdict(each) for each in trained.history]
    return {
        "about": training.about,
        "tasks": settings.all_tasks,
        "queries": trained.queries,
        "exploded": sum(each.exploded for each in trained.history),
        "settings": plain,
        "history": {name: [each[name] for each in history] for name in ("objective", "loss", "correlation", "share")},
    }
