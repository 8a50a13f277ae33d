"""Ray: resident workers on two nodes of this machine; one is killed, a model is loaded once, Ray may be absent."""

import contextlib
import os
import signal
import sys
import warnings

import pytest
import torch
from torch import nn

import metricopt as mo
from metricopt.core.errors import WorkerError
from metricopt.run.workers import hired

X = torch.randn(600, 4, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0.8).long()


@pytest.fixture(scope="module")
def cluster():
    """Two nodes of two workers each; slow to start, so one for all tests and only where CI asks for it."""
    if "METRICOPT_RAY" not in os.environ:
        pytest.skip("takes a minute: set METRICOPT_RAY=1")
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        node = {"num_cpus": 2, "object_store_memory": 300 * 2**20, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args=node)
        cluster.add_node(num_cpus=2, object_store_memory=300 * 2**20)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    yield ray
    ray.shutdown()
    cluster.shutdown()


def answers(crew, questions):
    tickets = [crew.ask(question) for question in questions]
    return [crew.answer(tickets) for _ in tickets]


pytestmark = pytest.mark.filterwarnings("ignore")  # of Ray's own


def test_a_model_of_100_megabytes_is_loaded_once_by_each_worker_on_both_nodes(cluster, tmp_path):
    class Heavy:
        def __init__(self, path):
            self.path, self.weights = path, torch.ones(25 * 2**20)  # 100 MB

        def __setstate__(self, state):
            self.__dict__ = state
            with self.path.open("a") as file:
                file.write(f"{os.getpid()}\n")

        def __call__(self, question):
            import ray

            return ray.get_runtime_context().get_node_id(), float(self.weights[question])

    with hired(Heavy(tmp_path / "loads"), workers=4, executor="ray") as crew:
        found = answers(crew, range(40))
    loads = (tmp_path / "loads").read_text().split()
    assert len(loads) == len(set(loads)) == 4
    assert len({each.answer[0] for each in found}) == 2 and all(each.answer[1] == 1.0 for each in found)


def test_a_worker_killed_in_the_middle_of_a_run_loses_no_answer_and_is_counted(cluster, tmp_path):
    calls = tmp_path / "calls"

    def accuracy(truth, labels):
        with calls.open("a") as file:
            file.write("x")
        if len(calls.read_text()) >= 15:
            with contextlib.suppress(FileExistsError):
                calls.with_suffix(".death").touch(exist_ok=False)  # one of them only
                os.kill(os.getpid(), signal.SIGKILL)
        return float((truth == labels).mean())

    torch.manual_seed(0)
    result = mo.optimize(
        nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)),
        metric=mo.Metric(accuracy, on="labels", goal="max", costly=True),
        train=(X[:200], Y[:200]),
        val=(X[200:], Y[200:]),
        learn_from_val=False,
        recipe=mo.Recipe(start_steps=20, candidates=40),
        queries=25,
        workers=4,
        executor="ray",
    )
    assert result.ledger.used == len(result.ledger.queries) == 25 and not result.ledger.failures
    assert result.ledger.extra == 1 and len(calls.read_text()) == result.ledger.calls


def test_more_workers_than_processors_are_refused(cluster, monkeypatch):
    monkeypatch.setattr("metricopt.run.workers_ray.PATIENCE", 8.0)
    with (
        pytest.raises(WorkerError, match=r"Ray started \d of 5 workers within 8 s; its nodes have 4 processors in all"),
        hired(abs, workers=5, executor="ray"),
    ):
        pass


def test_a_ray_that_is_not_installed_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(WorkerError, match=r'not installed; expected it: pip install "metricopt-torch\[ray\]"'),
        hired(abs, workers=2, executor="ray"),
    ):
        pass


def test_a_ray_that_is_not_there_is_one_sentence(monkeypatch):
    ray = pytest.importorskip("ray")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)

    def refuse(**_):
        raise ConnectionError("Could not find any running Ray instance at 127.0.0.1:1")

    monkeypatch.setattr(ray, "init", refuse)
    with (
        pytest.raises(WorkerError, match=r"no Ray at 127\.0\.0\.1:1 .*; expected a cluster: start one with `ray start"),
        hired(abs, workers=2, executor="ray"),
    ):
        pass
