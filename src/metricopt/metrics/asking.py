"""A metric is asked: its function is handed the cases of each member, and what it answers is checked."""

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor

from metricopt.core.errors import MetricError
from metricopt.metrics.arguments import Cases, matched
from metricopt.metrics.checks import one_number, said, shown
from metricopt.metrics.guard import guarded
from metricopt.metrics.whole_outputs import WholeCases

if TYPE_CHECKING:
    from metricopt.metrics.metric import Metric


class Answer(NamedTuple):
    """What a metric said about one member of a population: a value in natural units, or why there is none."""

    member: int
    value: float
    error: MetricError | None = None


def cases_of_one(metric: "Metric", outputs: Any, targets: Any, groups: Tensor | None) -> Cases | WholeCases:
    """What the function is given for one model."""
    if metric.on == "outputs":
        return cases_of(metric, [outputs], targets, groups)
    groups = None if groups is None else groups.unsqueeze(0)
    return cases_of(metric, outputs.unsqueeze(0), targets.unsqueeze(0), groups)


def cases_of(metric: "Metric", outputs: Any, targets: Any, groups: Tensor | None) -> Cases | WholeCases:
    """What the function is given for each member of a population of models."""
    if metric.on == "outputs":
        return WholeCases(list(outputs), targets, needed(metric, groups) if metric.groups else None)
    if metric.on == "model":
        raise MetricError(
            f"metric {metric.name!r} is computed on the model, not on {tuple(outputs.shape)} outputs: "
            f"call value_of_model(model, inputs, targets)"
        )
    return matched(
        outputs, targets, needed(metric, groups) if metric.groups else None, on=metric.on, hidden=metric.hidden
    )


def needed(metric: "Metric", groups: Tensor | None) -> Tensor:
    """The groups, without which the metric cannot be asked."""
    if groups is None:
        raise MetricError(f"metric {metric.name!r} needs the group of each example, but got groups=None: pass groups")
    return groups


def _batched_answers(metric: "Metric", cases: Cases | WholeCases, failures: str) -> list[float] | None:
    """One number a member, or None if members have to be asked one by one."""
    if metric.batched is None or isinstance(cases, WholeCases):
        return None
    extra = () if cases.groups is None else (cases.groups,)
    limit = None if metric.time_limit is None else metric.time_limit * len(cases.predictions)
    try:
        answers = guarded(limit, metric.batched, cases.targets, cases.predictions, *extra)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if failures == "nan" or not cases.sound.all():
            return None  # one member may have broken the others' computation
        raise raised(metric, error) from error
    if not isinstance(answers, Tensor) or answers.shape != (len(cases.predictions),):
        found = f"shape {tuple(answers.shape)}" if isinstance(answers, Tensor) else shown(answers)
        raise MetricError(
            f"the batched form of metric {metric.name!r} returned {found} for a population of "
            f"{len(cases.predictions)}: return a tensor with one value a member"
        )
    return answers.tolist()


def answers_of(
    metric: "Metric", about: tuple[Any, Any, Tensor | None], members: Sequence[int] | None, failures: str
) -> Iterator[Answer]:
    """Answers about all members or those listed, as they come; each has its value or its error."""
    cases = cases_of(metric, *about)
    members = range(len(cases.predictions)) if members is None else members
    known = _batched_answers(metric, cases, failures) if len(members) else None
    if metric.batched is not None and known is None:
        cases = cases_of(metric, *about)  # the batched form may have overwritten them before it failed
    if known is not None or metric.parallel == 1:
        yield from (_settled(metric, cases, member, None if known is None else known[member]) for member in members)
        return
    with ThreadPoolExecutor(metric.parallel) as pool:
        futures = [pool.submit(_settled, metric, cases, member, None) for member in members]
        yield from (future.result() for future in as_completed(futures))


def _settled(metric: "Metric", cases: Cases | WholeCases, member: int, known: float | None) -> Answer:
    try:
        return Answer(member, answer_of(metric, cases, member, known))
    except MetricError as error:
        return Answer(member, math.nan, error)


def answer_of(metric: "Metric", cases: Cases | WholeCases, member: int, known: float | None = None) -> float:
    """The value of one member, asked for unless its number is known; raises if there is none."""
    check_sound(metric, cases, member)
    return asked(metric, *cases.arrays(member)) if known is None else _checked(metric, known)


def check_sound(metric: "Metric", cases: Cases | WholeCases, member: int) -> None:
    """Raises if the member's outputs are broken."""
    if not cases.sound[member]:
        raise MetricError(
            f"metric {metric.name!r} was asked about model outputs with NaN or +inf in them, where finite ones are "
            f"expected: the model has diverged, so lower the learning rate or discard this model"
        )


def asked(metric: "Metric", *arguments: Any) -> float:
    """What the function answers, in natural units."""
    try:
        answer = guarded(metric.time_limit, metric.function, *arguments)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # sys.exit in a metric is a failed query, not the end of the program
        raise raised(metric, error) from error
    return _checked(metric, answer)


def raised(metric: "Metric", error: BaseException) -> MetricError:
    """The error of a query whose function raised another."""
    return MetricError(
        f"metric {metric.name!r} (on={metric.on!r}) raised {said(error)}; a number is expected for "
        f"any prediction: handle this case in its function or choose another 'on'"
    )


def _checked(metric: "Metric", answer: Any) -> float:
    """The answer as a float, if it is a number that its bounds allow for."""
    return metric.range.answer(one_number(metric.name, answer))
