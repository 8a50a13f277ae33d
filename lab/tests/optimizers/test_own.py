import pytest
import torch

from metricopt.adapters import OutputAffine
from metricopt.data.dataset import Examples
from metricopt.losses import cross_entropy
from metricopt.metrics import mcr
from metricopt_lab.optimizers.own import MULTIPLES, OWN, own_run
from metricopt_lab.problems import Problem
from metricopt_lab.studies.learned_attempts import ATTEMPTS, FIRST, LearnedAttempts


@pytest.fixture(scope="module")
def problem():
    draw = torch.Generator().manual_seed(0)
    inputs = torch.randn(120, 3, generator=draw)
    data = Examples(inputs, (inputs[:, 0] > 0.3).long())
    torch.manual_seed(0)
    return Problem("toy", torch.nn.Linear(3, 2), OutputAffine(), cross_entropy, mcr(), train=data, search=data,
                   accept=data, test=data, sampling="plain", batch_size=16, notes="made up", seed=0)  # fmt: skip


def test_a_run_is_fitted_to_the_size_of_phi_and_tells_every_query(problem):
    settings = OWN["smoke"]
    made = own_run(problem, settings, steps=20)
    assert made.trained.learned.rule.dim == problem.task().dim == 4
    assert made.trained.queries == settings.queries
    # The start and every tenth step but the last are told, and the end of each path is asked about.
    assert made.queries == len(MULTIPLES) * (2 + 1)
    assert made.found.path.shape == (21, 4) and not made.found.path[0].any()
    assert made.found.tried[made.found.rate] == min(made.found.tried.values())


def test_what_was_tried_is_judged_where_nothing_is_reported():
    assert FIRST > 100
    text = LearnedAttempts.text(
        None,  # pyright: ignore[reportArgumentType]
        [{"scale": "small", "method": name, "about": each.about, "accept_costs": [0.3, 0.26], "queries": 800,
          "meta_loss": [37.5, 33.7], "correlation": 0.97, "seconds": 47.0} for name, each in ATTEMPTS.items()],
    )  # fmt: skip
    assert all(each.about in text for each in ATTEMPTS.values()) and "-.0400" in text and "37.50, 33.70" in text
