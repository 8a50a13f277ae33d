"""Nothing of the user's is touched, and nothing a metric does ends the program."""

import asyncio
import ctypes
import os
import random
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from metricopt.core.errors import MetricError
from metricopt.metrics import Metric

OUTPUTS, TARGETS = torch.tensor([1.0, -1.0, 1.0, -1.0]), torch.tensor([1, 0, 0, 0])


def made(function, **stated):
    return Metric(function, **({"on": "labels", "goal": "max", "name": "mine"} | stated))


def writing(y_true, prediction, groups):
    right = float((y_true == prediction).mean())
    y_true[:], prediction[:], groups[:] = 0, 0, 0
    return right


def batched_writing(targets, predictions, groups):
    right = (targets == predictions).double().mean(1)
    targets[0, 1], groups[0, 1] = 7, 9
    predictions.zero_()
    return right


@pytest.mark.parametrize("on", ["labels", "scores", "logits", "values", "embeddings"])
@pytest.mark.parametrize("batched", [None, batched_writing])
def test_a_metric_that_overwrites_its_arguments_touches_nobodys_and_answers_as_one_that_does_not(on, batched):
    outputs, targets, groups = OUTPUTS.expand(3, 4).clone(), TARGETS.clone(), torch.arange(4)
    honest = made(lambda y, p, _groups: float((y == p).mean()), on=on, groups=True)
    metric = made(writing, on=on, groups=True, batched=batched)
    for _ in range(2):
        assert torch.equal(metric.values(outputs, targets, groups), honest.values(outputs, targets, groups))
    assert torch.equal(outputs, OUTPUTS.expand(3, 4)) and torch.equal(targets, TARGETS)
    assert torch.equal(groups, torch.arange(4))


def test_even_a_tensor_made_of_an_argument_is_the_metrics_own():
    def sneaky(y_true, prediction):
        torch.from_numpy(y_true).zero_()
        return 0.5

    targets = TARGETS.clone()
    made(sneaky).value(OUTPUTS, targets)
    assert torch.equal(targets, TARGETS)


def test_a_batched_form_that_fails_halfway_does_not_spoil_the_members_answers():
    def halfway(targets, predictions):
        predictions.zero_()
        raise ValueError("halfway")

    metric = made(lambda y, p: float((y == p).mean()), on="logits", batched=halfway)
    values = metric.values(OUTPUTS.expand(2, 4), OUTPUTS, failures="nan")
    assert values.tolist() == [1.0, 1.0]


def test_inputs_and_targets_of_a_metric_of_the_model_are_copies():
    def spoil(net, inputs, targets):
        inputs["x"].zero_()
        targets.zero_()
        return 0.5

    inputs, targets = {"x": torch.ones(3)}, torch.ones(3)
    made(spoil, on="model").value_of_model(nn.Identity(), inputs, targets)
    assert inputs["x"].tolist() == targets.tolist() == [1.0] * 3


def global_state():
    generator = np.random.get_bit_generator()
    return (
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
        bytes(torch.get_rng_state().numpy()),
        ctypes.string_at(generator.ctypes.state_address, 2500),
        random.getstate(),
        Path.cwd(),
        list(warnings.filters),
        tuple(np.geterr().items()),
    )


def meddle(tmp_path):
    torch.set_grad_enabled(not torch.is_grad_enabled())
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002 - the global one is the point
    random.seed(5)
    os.chdir(tmp_path)
    warnings.simplefilter("ignore")
    np.seterr(all="raise")


@pytest.mark.parametrize("ends", ["well", "badly", "late"])
def test_global_state_survives_any_metric(tmp_path, ends):
    def meddling(*_):
        meddle(tmp_path)
        if ends == "badly":
            raise ValueError
        return 0.5

    before = global_state()
    metric = made(meddling, time_limit=5.0 if ends == "late" else None)
    try:
        metric.value(OUTPUTS, TARGETS)
    except MetricError:
        assert ends == "badly"
    assert global_state() == before


def test_global_state_survives_metrics_asked_at_the_same_time(tmp_path):
    def meddling(*_):
        meddle(tmp_path)
        return 0.5

    before = global_state()
    made(meddling, parallel=4).values(OUTPUTS.expand(12, 4), TARGETS)
    with ThreadPoolExecutor(3) as pool:
        _ = [pool.submit(made(meddling).value, OUTPUTS, TARGETS) for _ in range(9)]
    assert global_state() == before


def test_a_global_stream_gives_every_call_the_same_numbers_and_its_owner_the_next_ones():
    np.random.seed(0)  # noqa: NPY002 - the global one is the point
    expected = np.random.rand(), np.random.rand()  # noqa: NPY002
    np.random.seed(0)  # noqa: NPY002
    first = np.random.rand()  # noqa: NPY002
    metric = made(lambda *_: np.random.rand())  # noqa: NPY002
    answers = {metric.value(OUTPUTS, TARGETS) for _ in range(3)}
    assert (first, np.random.rand()) == expected and answers == {expected[1]}  # noqa: NPY002


def test_warnings_of_a_metric_are_shown_as_its_owners_filters_say():
    def warning(*_):
        warnings.warn("rare class", UserWarning, stacklevel=1)
        return 0.5

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        metric = made(warning)
        for _ in range(3):
            metric.value(OUTPUTS, TARGETS)
    assert len(caught) == 1


class UnspeakableError(Exception):
    def __str__(self):
        raise RuntimeError("no words")

    __repr__ = __str__


def leaves(*_):
    sys.exit(3)


def cannot_say(*_):
    raise UnspeakableError


def cancelled(*_):
    raise asyncio.CancelledError


def yields(*_):
    yield 0.5


async def awaited(*_):
    return 0.5


class Odd:
    def __repr__(self):
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (leaves, "raised SystemExit: 3; a number is expected"),
        (cannot_say, "raised UnspeakableError, whose message cannot be shown; a number is expected"),
        (cancelled, "raised CancelledError"),
        (lambda *_: 10**400, r"gave 10+ \.\.\., as a float inf; a finite number"),
        (lambda *_: 10**5000, "gave something of type int that cannot be shown, as a float inf"),
        (yields, "returned <generator .*its function yields, so let it return a float"),
        (awaited, "returned <coroutine .*its function is async, so wrap it: .*asyncio.run"),
        (lambda *_: Odd(), "returned something of type Odd that cannot be shown; a single number"),
        (lambda *_: {"f1": 0.5}, r"returned \{'f1': 0.5\}.*Metric\(\.\.\., key='f1'\)"),
        (lambda *_: np.array([0.5, 0.6]), r"returned array.*average='macro'"),
        (lambda y, _: y[99], "raised IndexError"),
    ],
)
@pytest.mark.parametrize("time_limit", [None, 5.0])
def test_whatever_a_metric_does_instead_of_answering_is_a_failure_in_one_sentence(function, sentence, time_limit):
    with pytest.raises(MetricError, match=f"^metric 'mine' .*{sentence}") as caught:
        made(function, time_limit=time_limit).value(OUTPUTS, TARGETS)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 1000
    (answer,) = made(function).answers(OUTPUTS[None], TARGETS)
    assert answer.error is not None


def test_the_users_own_interruption_passes_through():
    def interrupted(*_):
        raise KeyboardInterrupt

    for metric in (made(interrupted), made(interrupted, batched=interrupted)):
        with pytest.raises(KeyboardInterrupt):
            metric.values(OUTPUTS[None], TARGETS, failures="nan")


def test_any_kind_of_number_is_an_answer():
    import decimal
    import fractions

    for number in (
        fractions.Fraction(1, 2),
        decimal.Decimal("0.5"),
        np.float16(0.5),
        np.bool_(True),
        torch.tensor([1]),
    ):
        assert made(lambda *_, n=number: n).value(OUTPUTS, TARGETS) in (0.5, 1.0)
