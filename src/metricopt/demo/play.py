"""Both acts played: metricopt and threshold tuning on the same rows, with as many calls, compared on test rows."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from platform import python_version
from typing import Any

import torch

from metricopt import __version__
from metricopt.acceptance.climb import compare
from metricopt.acceptance.comparison import Comparison
from metricopt.api.optimize import optimize
from metricopt.core.errors import BudgetError
from metricopt.core.seeding import stream
from metricopt.data.dataset import Examples
from metricopt.demo.acts import Act, shifted, unshifted
from metricopt.demo.threshold import Tuned, tuned
from metricopt.losses import cross_entropy
from metricopt.run.events import NAME, Listener
from metricopt.run.live import LiveView
from metricopt.run.progress import Progress

LEAST = 10


@dataclass(frozen=True)
class Played:
    """What came of one act; values are on test rows, which neither method has seen.

    Attributes:
        act: The act.
        found: What `optimize` says of itself, as plain data.
        gain: The original against what `optimize` returned.
        tuned: What tuning found, with its best value after each call.
        tuning_gain: The original against that.
        difference: Tuning against `optimize`.
        best: Best value on the queried rows after each call of `optimize`.
        seconds: Wall time of `optimize`.
    """

    act: Act
    found: dict[str, Any]
    gain: Comparison
    tuned: Tuned
    tuning_gain: Comparison
    difference: Comparison
    best: list[float]
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Its numbers as plain data."""
        rows = {name: len(targets) for name, (_, targets) in self.act.parts._asdict().items()}
        return {
            "metric": self.act.metric.name,
            "goal": self.act.metric.goal,
            **_numbers(self.gain),
            "accepted": self.found["accepted"],
            "queries": len(self.best),
            "calls": self.found["calls"],
            "seconds": self.seconds,
            "threshold_tuning": {**_numbers(self.tuning_gain), "calls": len(self.tuned.best)},
            "metricopt_over_threshold_tuning": asdict(self.difference),
            "decision": self.found,
            "rows": rows,
            "data": self.act.fingerprint,
        }


@dataclass(frozen=True)
class Demo:
    """Both acts.

    Attributes:
        first: The population has shifted.
        second: It has not.
        seed: Of everything random.
        seconds: Wall time of all of it, training included.
    """

    first: Played
    second: Played
    seed: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """All numbers as plain data: those of the first act, and beside them the second."""
        versions = {"metricopt": __version__, "torch": torch.__version__, "python": python_version()}
        return {
            **self.first.to_dict(),
            "second_act": self.second.to_dict(),
            "seed": self.seed,
            "seconds_in_all": self.seconds,
            "versions": versions,
        }


def demo(
    *,
    queries: int = 200,
    seed: int = 0,
    out: Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    watch: Sequence[Listener] = (),
) -> Demo:
    """Train, search with both methods on the same rows, and compare on test rows, for both acts.

    Args:
        queries: Metric queries of the search; tuning gets as many calls as this takes in all.
        seed: Of everything random.
        out: Folder for the events of the searches, for the report.
        resume: Whether to go on with searches in that folder; otherwise those that are there are forgotten.
        progress: Where to show how far it is.
        watch: Called with each event of the first act's search.
    """
    if queries < LEAST:
        raise BudgetError(
            f"{queries} metric queries were granted; expected at least {LEAST} for the demo to show anything"
        )
    began = time.perf_counter()
    view = () if progress is None else (LiveView(progress),)
    first = play(shifted(seed), queries=queries, seed=seed, out=out, resume=resume, watch=(*view, *watch))
    view = () if progress is None else (LiveView(progress),)
    second = play(unshifted(seed), queries=queries, seed=seed, out=out, resume=resume, watch=view)
    return Demo(first, second, seed, seconds=time.perf_counter() - began)


def play(
    act: Act, *, queries: int, seed: int, out: Path | None = None, resume: bool = False, watch: Sequence[Listener] = ()
) -> Played:
    """One act."""
    run_dir = None if out is None else out / act.key
    if run_dir is not None and not resume:
        (run_dir / NAME).unlink(missing_ok=True)
    result = optimize(
        act.net,
        loss=cross_entropy,
        metric=act.metric,
        train=act.parts.train,
        val=act.parts.val,
        queries=queries,
        effort="quick",  # a demo is looked at for a minute
        seed=seed,
        run_dir=run_dir,
        resume=resume,
        watch=watch,
        progress=False,  # the demo shows both acts on a display of its own
    )
    with torch.no_grad():
        queried = act.net(act.parts.val[0])
        original = act.net(act.parts.test[0])
        improved = result.model(act.parts.test[0])
    found = result.to_dict()
    # As many as metricopt really made, to tell gains from luck and to decide included.
    rival = tuned(act.metric, queried, act.parts.val[1], calls=found["calls"], seed=seed)
    outputs = {"original": original, "tuned": original + rival.bias, "improved": improved}
    return Played(
        act,
        found=found,
        gain=_compared(act, outputs["original"], outputs["improved"], seed),
        tuned=rival,
        tuning_gain=_compared(act, outputs["original"], outputs["tuned"], seed),
        difference=_compared(act, outputs["tuned"], outputs["improved"], seed),
        best=act.metric.natural(result.ledger.best_so_far()).tolist(),
        seconds=result.seconds,
    )


def _compared(act: Act, before: torch.Tensor, after: torch.Tensor, seed: int) -> Comparison:
    """Two models by their outputs on the test rows, resampled alike for every pair."""
    return compare(act.metric, (before, after), Examples(*act.parts.test), generator=stream(seed, "demo", "test"))


def _numbers(gain: Comparison) -> dict[str, Any]:
    return {"before": gain.before, "after": gain.after, "interval": list(gain.interval), "level": gain.level}
