# ruff: noqa: ARG005
"""A metric is recognised by what it computes, also in another process, and not by what it has counted."""

import functools
import os
import subprocess
import sys

import pytest
from sklearn.metrics import f1_score, fbeta_score

import metricopt as mo
from metricopt.metrics import as_metric
from metricopt.metrics.fingerprint import metric_facts, metric_fingerprint


def of(function):
    return metric_fingerprint(mo.Metric(function, on="labels", goal="max", name="f1"))


def power(exponent):
    return lambda y, p: float(((y == p) ** exponent).mean())


class Share:
    def __init__(self):
        self.calls = 0

    def __call__(self, y, p):
        self.calls += 1
        return float((y == p).mean())


class Other:
    def __call__(self, y, p):
        return float((y != p).mean())


DIFFERENT = [
    f1_score,
    fbeta_score,
    lambda y, p: float((y == p).mean()),
    lambda y, p: float((y != p).mean()),
    lambda y, p: float((y == p).mean()) * 0.5,
    lambda y, p, scale=2: scale,
    lambda y, p, scale=3: scale,
    lambda y, p, *, scale=2: scale,
    lambda y, p: {n + 1 for n in (1, 2)},
    lambda y, p: {n + 1 for n in (1, 3)},
    power(1),
    power(2),
    functools.partial(fbeta_score, beta=1),
    functools.partial(fbeta_score, beta=2),
    functools.partial(f1_score, average="macro"),
    Share(),
    Other(),
    Share().__call__,
    max,
    min,
]


def test_functions_that_differ_have_different_fingerprints():
    found = [of(function) for function in DIFFERENT]
    assert len(set(found)) == len(DIFFERENT)
    assert [of(function) for function in DIFFERENT] == found


def test_named_metrics_and_commands_differ():
    names = ("f1", "mcr", "accuracy", "auroc", "aucpr")
    found = {metric_fingerprint(as_metric(name)) for name in names}
    found |= {metric_fingerprint(mo.CommandMetric(f"{name} {{predictions}}", goal="max")) for name in ("true", "false")}
    found |= {metric_fingerprint(mo.HttpMetric(f"http://{host}/", goal="max")) for host in "ab"}
    assert len(found) == len(names) + 4


def test_what_a_function_counts_or_collects_does_not_change_it():
    count, seen, share = 0, [], Share()

    def counted(y, p):
        nonlocal count
        count += 1
        seen.append(p)
        return 0.5

    before = of(counted), of(share)
    counted(1, 2)
    share.calls += 1
    assert (of(counted), of(share)) == before


SCRIPT = """
import metricopt as mo
from metricopt.metrics.fingerprint import metric_fingerprint
names = {"alpha", "beta", "gamma"}
def mine(y, p, *, among=frozenset({"alpha", "beta", "gamma"})):
    return 0.5 if p in {"alpha", "beta", "gamma"} else 0.25
print(metric_fingerprint(mo.Metric(mine, on="labels", goal="max")))
"""


def test_the_fingerprint_is_the_same_in_another_process():
    said = [
        subprocess.run([sys.executable, "-c", SCRIPT], env={**os.environ, "PYTHONHASHSEED": seed},
                       capture_output=True, text=True, check=True).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert said[0] == said[1] != ""


def test_the_facts_name_everything_that_makes_an_answer():
    facts = metric_facts(mo.Metric(f1_score, on="labels", goal="max", bounds=(0, 2)))
    assert facts == {"name": "f1_score", "goal": "max", "on": "labels", "bounds": [0, 2], "function": facts["function"]}
    assert facts["function"].startswith("f1_score ")


@pytest.mark.parametrize("value", [object(), type, print, iter(())])
def test_anything_that_can_be_called_has_one(value):
    assert of(functools.partial(f1_score, weird=value)) == of(functools.partial(f1_score, weird=value))
