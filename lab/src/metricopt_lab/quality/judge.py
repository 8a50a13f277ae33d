"""Judging what a search returned: test metric, validation metric, and the acceptance test."""

from dataclasses import dataclass

import torch
from torch import Tensor

from metricopt.acceptance.comparison import Comparison
from metricopt.acceptance.judge import Judge as HeldOut
from metricopt_lab.problems import Problem

_STANDARD_ERROR_RESAMPLES = 50


@dataclass(frozen=True)
class Verdict:
    """What becomes of a proposal, judged after the search is over.

    Attributes:
        test: Its cost on the test data.
        search: Its cost on the data the metric was queried on.
        comparison: The original against it on the data that accept, in the metric's natural units.
    """

    test: float
    search: float
    comparison: Comparison


class Judge:
    """Judges proposals on one problem; the same one is judged once, whoever made it.

    Attributes:
        problem: The problem.
        kind: What it is an example of.
        dim: Size of phi.
        original: The verdict on phi = 0.
        standard_error: Of the original's test cost, by bootstrap of the test rows.

    Example:
        >>> from metricopt_lab.problems.adult import adult
        >>> problem = adult("small", data="adult_a9a", metric="f1", sizes=(1000, 200, 200, 200), seed=0, dim=8)
        >>> judge = Judge(problem, kind="threshold", resamples=20)
        >>> judge.verdict(torch.zeros(1, judge.dim)) is judge.original
        True
    """

    def __init__(self, problem: Problem, *, kind: str, resamples: int) -> None:
        self.problem = problem
        self.kind = kind
        self._resamples = resamples
        self._model = problem.model
        self.dim = self._model.dim
        self._zero = torch.zeros(self.dim)
        self._costs = {part: float(problem.costs(self._zero[None], part)) for part in ("test", "search", "accept")}
        self.original = Verdict(self._costs["test"], self._costs["search"], self._unchanged())
        self._known: dict[bytes, Verdict] = {self._key(self._zero[None]): self.original}
        self.standard_error = problem.standard_error("test", resamples=_STANDARD_ERROR_RESAMPLES)

    def verdict(self, rungs: Tensor) -> Verdict:
        """Verdict on vectors (k, dim), plainest first, of which one is kept: see `climb`."""
        key = self._key(rungs)
        if key not in self._known:
            self._known[key] = self._judged(rungs.detach().float())
        return self._known[key]

    def _judged(self, rungs: Tensor) -> Verdict:
        problem = self.problem
        held_out = HeldOut(self._model, problem.accept, seed=problem.seed)
        phi, comparison = held_out.keep_best(problem.metric, rungs, resamples=self._resamples)
        test, search = (float(problem.costs(phi[None], part)) for part in ("test", "search"))
        return Verdict(test, search, comparison)

    def _unchanged(self) -> Comparison:
        """What a bootstrap of the original against itself gives, without doing it."""
        value = self.problem.metric.natural(self._costs["accept"])
        rows = len(self.problem.accept)
        return Comparison(value, value, (0.0, 0.0), level=0.9, confidence=0.0, resamples=self._resamples, examples=rows)

    def _key(self, phi: Tensor) -> bytes:
        # Adding 0 turns -0 into 0: the same vector must have the same bytes.
        return (phi.detach().float() + 0.0).numpy().tobytes()
