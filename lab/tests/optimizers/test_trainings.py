import pytest
import torch

from metricopt.core.errors import UnknownNameError
from metricopt.paper.learned.weights import load_optimizer
from metricopt_lab.figures.figure4.learned import WEIGHTS
from metricopt_lab.optimizers.trainings import SEED, TRAININGS, run_training


def test_an_unknown_training_is_answered_with_the_known_ones(tmp_path):
    with pytest.raises(UnknownNameError, match="known: cifar10_aucpr, "):
        run_training("cifar10", tmp_path)


@pytest.mark.parametrize("method", WEIGHTS)
def test_shipped_weights_were_trained_with_the_settings_of_their_name(method):
    name = WEIGHTS[method] if isinstance(WEIGHTS[method], str) else WEIGHTS[method].name
    learned, training = load_optimizer(WEIGHTS[method]), TRAININGS[name]
    assert learned.rule == training.settings.rule
    assert learned.about["batch_size"] == training.batch_size
    settings = learned.about["settings"]
    plain = ("iterations", "tasks", "steps", "std", "weight", "meta_lr", "metric_every", "caution", "start_std")
    assert {key: settings[key] for key in plain} == {key: getattr(training.settings, key) for key in plain}
    assert learned.about["queries"] == training.settings.queries


def test_the_problem_of_meta_training_is_none_that_is_reported():
    assert SEED >= 100 and torch.is_tensor(load_optimizer("cifar10_aucpr").weights)
