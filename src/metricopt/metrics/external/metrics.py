"""Metrics computed elsewhere: by another program, or by a server."""

import hashlib
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, final

import numpy as np

from metricopt.core.errors import MetricError
from metricopt.metrics.adopted import Goal, On
from metricopt.metrics.external.cache import AnswerCache
from metricopt.metrics.external.command import Command
from metricopt.metrics.external.exchange import NoAnswerError, Question, number_in, only_number_in
from metricopt.metrics.external.http import Post
from metricopt.metrics.metric import Metric

_LOGGER = logging.getLogger("metricopt")
_FIRST_PAUSE = 0.5


def CommandMetric(  # noqa: N802 - reads as the Metric it gives
    command: str,
    *,
    goal: Goal,
    on: On = "scores",
    bounds: tuple[float, float] = (0.0, 1.0),
    name: str | None = None,
    time_limit: float = 60.0,
    retries: int = 2,
    parallel: int = 1,
    groups: bool = False,
    hidden: bool = False,
    cache: Path | str | None = None,
) -> Metric:
    """A metric that another program computes, asked once a query.

    The command is run without a shell. In it `{predictions}` becomes the path of an .npz file with the arrays
    `predictions`, `targets` (`rows` if hidden) and `groups` (if any); `{predictions:csv}` that of a table with those
    columns; `{predictions:npy}`, `{targets}`, `{rows}` and `{groups}` those of single arrays. The last line it prints
    that is a number, or a JSON object with a key "value", is the answer; the last megabyte of what it prints is kept.
    When it ends, is late, or this process ends (however it ends), everything it has started is killed, on Linux also
    what it has put into a session of its own.

    It must score the rows it is given, not a set of its own: the acceptance asks about other rows, and about resamples
    of them. A question that was asked before is answered from memory: it counts as a query, and costs nothing.

    Args:
        command: The command line.
        goal: "max" or "min".
        on: What the predictions are: "labels", "scores", "logits" or "embeddings".
        bounds: Smallest and largest value it can give.
        name: Name for messages; by default the command.
        time_limit: Seconds after which the command and all it started are killed.
        retries: Further attempts, after 0.5 s, 1 s, 2 s ..., before a query counts as failed.
        parallel: Commands that may run at once.
        groups: Whether it needs the group of each example.
        hidden: Whether the command knows the truth: it is told the row numbers of `val`, and targets never leave here.
        cache: File that remembers answers beyond this process, by command and arrays; several processes may share it.

    Example:
        >>> import shlex, sys, torch
        >>> script = shlex.quote("import numpy, sys; print(numpy.load(sys.argv[1])['predictions'].mean())")
        >>> metric = CommandMetric(f"{sys.executable} -c {script} {{predictions}}", goal="max", name="mean")
        >>> metric.value(torch.zeros(4), torch.tensor([0, 1, 0, 1]))
        0.5
    """
    transport = Command(command, time_limit=time_limit)
    asker = Outside(transport, retries=retries, hidden=hidden, cache=cache, identity=transport.identity)
    return _metric(asker, goal=goal, on=on, bounds=bounds, name=name or command, parallel=parallel, groups=groups)


def HttpMetric(  # noqa: N802 - reads as the Metric it gives
    url: str,
    *,
    goal: Goal,
    on: On = "scores",
    bounds: tuple[float, float] = (0.0, 1.0),
    name: str | None = None,
    time_limit: float = 60.0,
    retries: int = 2,
    parallel: int = 1,
    groups: bool = False,
    hidden: bool = False,
    cache: Path | str | None = None,
    encoding: Literal["json", "npz"] = "json",
    headers: Mapping[str, str] | None = None,
) -> Metric:
    """A metric that a server computes: like `CommandMetric`, with the arrays posted to a URL.

    The body is a JSON object of lists, or an .npz file with `encoding="npz"`; the response is a number, or a JSON
    object with a key "value", and has at most a megabyte. Answers 5xx and 429 are tried again, other refusals are not;
    redirects are not followed, and a body shorter than its Content-Length is no answer. The time limit covers all of
    it: finding the host, connecting, headers and body.

    Args:
        url: http:// or https://.
        goal: "max" or "min".
        on: What the predictions are: "labels", "scores", "logits" or "embeddings".
        bounds: Smallest and largest value it can give.
        name: Name for messages; by default the URL.
        time_limit: Seconds to wait for the answer.
        retries: Further attempts, after 0.5 s, 1 s, 2 s ..., before a query counts as failed.
        parallel: Requests that may be made at once.
        groups: Whether it needs the group of each example.
        hidden: Whether the server knows the truth: it is told the row numbers of `val`, and targets never leave here.
        cache: File that remembers answers beyond this process, by URL and arrays; several processes may share it.
        encoding: Of the body.
        headers: Further headers, for example for authorisation.

    Example:
        >>> HttpMetric("http://127.0.0.1:8000/f1", goal="max", on="labels")
        Metric('http://127.0.0.1:8000/f1', on='labels', goal='max')
    """
    transport = Post(url, time_limit=time_limit, encoding=encoding, headers=headers)
    asker = Outside(
        transport, retries=retries, hidden=hidden, cache=cache, identity=transport.identity, read=only_number_in
    )
    return _metric(asker, goal=goal, on=on, bounds=bounds, name=name or url, parallel=parallel, groups=groups)


@final
class Outside:
    """A metric's function that asks elsewhere, tries again, and remembers.

    Attributes:
        identity: What is asked, as the command or the URL.
        calls: Questions that went out, attempts included.
        recalled: Questions answered from memory.
        forgets: Whether memory is not consulted, as when it is to be seen whether the answer is the same again.
        beyond: Calls beyond one a question: further attempts, less what memory answered.

    Example:
        >>> outside = Outside(lambda question: "0.25", retries=0)
        >>> outside(np.array([0, 1]), np.array([0.5, 0.5])), outside(np.array([0, 1]), np.array([0.5, 0.5]))
        (0.25, 0.25)
        >>> outside.calls, outside.recalled, outside.beyond
        (1, 1, -1)
    """

    def __init__(
        self,
        transport: Callable[[Question], str],
        *,
        retries: int,
        hidden: bool = False,
        cache: Path | str | None = None,
        identity: str = "",
        read: Callable[[str], float] = number_in,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        if retries < 0:
            raise MetricError(f"retries is {retries}; expected 0 or more")
        self.transport, self.retries, self.hidden = transport, retries, hidden
        self.calls, self.recalled, self._questions = 0, 0, 0
        self.identity = identity
        self._read, self._pause = read, pause
        self.forgets = False
        self._known: dict[str, float] = {}
        self._cache = None if cache is None else AnswerCache(cache)
        self._lock = threading.Lock()

    def __call__(self, y_true: np.ndarray, prediction: np.ndarray, *groups: np.ndarray) -> float:
        """The answer for these predictions, asked for at most once."""
        names = ("predictions", "rows" if self.hidden else "targets", "groups")
        question = Question(dict(zip(names, (prediction, y_true, *groups), strict=False)))
        # The same rows and predictions are another question for another command or URL.
        key = hashlib.sha256(f"{self.identity}\n{question.key}".encode()).hexdigest()
        with self._lock:
            self._questions += 1
            known = None if self.forgets else self._recalled(key)
            if known is not None:
                self.recalled += 1
                return known
        answer = self._asked(question)
        with self._lock:
            self._remember(key, answer)
        return answer

    @property
    def beyond(self) -> int:
        """Calls so far beyond one a question; negative where memory answered."""
        return self.calls - self._questions

    def _asked(self, question: Question) -> float:
        for attempt in range(self.retries + 1):
            with self._lock:
                self.calls += 1
            try:
                return self._read(self.transport(question))
            except NoAnswerError as error:
                if attempt == self.retries:
                    raise MetricError(f"{error} (attempt {attempt + 1} of {self.retries + 1})") from error
                _LOGGER.info("attempt %d of %d: %s", attempt + 1, self.retries + 1, error)
                self._pause(_FIRST_PAUSE * 2**attempt)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _recalled(self, key: str) -> float | None:
        if key not in self._known and self._cache is not None:
            return self._cache.find(key)
        return self._known.get(key)

    def _remember(self, key: str, answer: float) -> None:
        self._known[key] = answer
        if self._cache is not None and math.isfinite(answer):
            self._cache.keep(key, answer)


def _metric(
    asker: Outside,
    *,
    goal: Goal,
    on: On,
    bounds: tuple[float, float],
    name: str,
    parallel: int,
    groups: bool,
) -> Metric:
    if on == "model":
        raise MetricError(f"metric {name!r} is computed outside and cannot be given the model: choose another 'on'")
    facts: dict[str, Any] = {"parallel": parallel, "groups": groups, "costly": True, "hidden": asker.hidden}
    return Metric(asker, on=on, goal=goal, bounds=bounds, name=name, **facts)
