"""Which part of the cross-fitted finetuning gains what: `optimize` as it comes, and without one part at a time."""

import hashlib
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, stdev
from typing import final

from metricopt import optimize
from metricopt.crossfit import EFFORTS, CrossFit
from metricopt.crossfit.settings import CROSSFIT_VERSION
from metricopt_lab.cells import EXPERIMENTS, Record, ScaledCell, ScaledExperiment
from metricopt_lab.markdown import table
from metricopt_lab.problems.zoo import PROBLEMS
from metricopt_lab.quality.ground import Ground, given
from metricopt_lab.rivals.weights.finetunings import Clock

QUERIES = {"smoke": 30, "small": 150, "paper": 500}

_DEFAULT = EFFORTS["default"]
VARIANTS: dict[str, CrossFit] = {
    "default": _DEFAULT,
    "no last layers": replace(_DEFAULT, kinds=_DEFAULT.of_all_weights),
    "one kind": replace(_DEFAULT, kinds=_DEFAULT.kinds[:1]),
    "no training rows": replace(_DEFAULT, kinds=tuple(kind for kind in _DEFAULT.kinds if not kind.mix)),
    "no biases": replace(_DEFAULT, tuned=0),
    "nothing between": replace(_DEFAULT, alphas=()),
    "one length": replace(_DEFAULT, lengths=(1.0,)),
    "two folds": replace(_DEFAULT, folds=2),
    "quick": EFFORTS["quick"],
}
"""The default, and what it is without one of its parts; `crossfit.settings` says what each is."""

DATA = (
    "adult_small_f1", "adult_flipped_aucpr", "covtype_small_shift_mcr", "covtype_shift_kappa", "covtype_noisy_macro_f1",
    "reviews_small_aucpr", "reviews_f1", "clinc_worst_intent",
)  # fmt: skip
"""Problems that may be looked at while developing, of four sources."""

LEAST = 0.005  # best gain of a problem below which gains are not divided by it


@EXPERIMENTS.add("weights-ablation")
@final
class WeightsAblation(ScaledExperiment[Ground]):
    """The cross-fitted finetuning with one part changed at a time, on development problems."""

    scales = ("smoke", "small", "paper")
    data_kind = "problem"

    def known_data(self) -> list[str]:
        """The problems of the scale."""
        return list(DATA[:1] if self.settings.scale == "smoke" else DATA)

    def cells(self) -> list[ScaledCell]:
        """Every variant on every problem; the next seed once all problems have one."""
        scale = self.settings.scale
        variants = list(VARIANTS)[:2] if scale == "smoke" else list(VARIANTS)
        return [
            ScaledCell(scale, problem, "plain", seed, PROBLEMS[problem].metric().name, variant)
            for seed in range(self.settings.seeds)
            for problem in self.data()
            for variant in variants
        ]

    def ground(self, first: ScaledCell) -> Ground:
        """A problem with its pre-trained network."""
        return Ground(PROBLEMS[first.data].build(first.seed))

    def measure(self, ground: Ground, cell: ScaledCell) -> Record:
        """What a variant gains on test rows: what is returned, and what was found."""
        problem, began = ground.problem, Clock()
        result = optimize(
            problem.net, metric=problem.metric, train=given(problem.train), val=given(problem.val),
            loss=problem.loss, queries=QUERIES[cell.scale], seed=problem.seed, effort=_settings(cell),
            finetuner=ground.shared_fits.for_a_run(),
        )  # fmt: skip
        took = began.taken + ground.shared_fits.spared
        (returned,) = ground.test_costs(result.model, result.model.phi.detach()[None])
        (proposed,) = ground.test_costs(result.model, result.proposal[None])
        return {
            "queries": result.ledger.used,
            "calls": result.ledger.calls,
            "test_before": ground.before,
            "gain": ground.before - returned,
            "proposed_gain": ground.before - proposed,
            "accepted": result.accepted,
            "cpu_seconds": round(took.cpu, 2),
            "seconds": round(took.seconds, 2),
            "problem": PROBLEMS[cell.data].about,
            "fingerprint": hashlib.sha256(problem.val.inputs.numpy().tobytes()).hexdigest(),
        }

    def version_of(self, method: str) -> int:  # noqa: ARG002
        """Of the recipe whose parts these are."""
        return CROSSFIT_VERSION

    def text(self, records: Sequence[Record]) -> str:
        """Normalised gains of all variants, and what each part gains."""
        cells = {(r["data"], r["seed"]) for r in records}
        title = (
            f"## The weights without one part, scale {records[0]['scale']}\n\n"
            f"{len(cells)} problem-seeds of {len({data for data, _ in cells})} development problems, at most "
            f"{QUERIES[records[0]['scale']]} queries. Gain on test rows divided by the best that any of these variants "
            f"reached there (or by {LEAST:g}), at least -1; the difference to the default, ± standard error, over the "
            f"problem-seeds that both have."
        )
        return f"{title}\n\n{_table(records)}\n"


def _settings(cell: ScaledCell) -> CrossFit:
    chosen = VARIANTS[cell.method]
    return replace(chosen, folds=2, epochs=1, rates=chosen.rates[:1]) if cell.scale == "smoke" else chosen


def _table(records: Sequence[Record]) -> str:
    returned, proposed = _normalised(records, "gain"), _normalised(records, "proposed_gain")
    rows = []
    for variant in dict.fromkeys(r["method"] for r in records):
        mine = [r for r in records if r["method"] == variant]
        rows.append([
            variant, f"{fmean(returned[variant].values()):.2f}", _difference(returned, variant),
            _difference(proposed, variant), f"{sum(r['accepted'] for r in mine)} of {len(mine)}",
            f"{fmean(r['cpu_seconds'] for r in mine):.0f}",
        ])  # fmt: skip
    header = ["variant", "gain", "minus the default", "of what was proposed", "accepted", "CPU s"]
    return table(header, rows)


def _normalised(records: Sequence[Record], gain: str) -> Mapping[str, dict[tuple[str, int], float]]:
    """By variant and problem-seed the gain divided by the best one there."""
    best: dict[tuple[str, int], float] = defaultdict(lambda: LEAST)
    for record in records:
        place = (record["data"], record["seed"])
        best[place] = max(best[place], record["gain"], record["proposed_gain"])
    found: dict[str, dict[tuple[str, int], float]] = defaultdict(dict)
    for record in records:
        place = (record["data"], record["seed"])
        found[record["method"]][place] = max(-1.0, record[gain] / best[place])
    return found


def _difference(gains: Mapping[str, dict[tuple[str, int], float]], variant: str) -> str:
    shared = [place for place in gains[variant] if place in gains["default"]]
    apart = [gains[variant][place] - gains["default"][place] for place in shared]
    if variant == "default" or len(apart) < 2:
        return "—"
    return f"{fmean(apart):+.2f} ± {stdev(apart) / math.sqrt(len(apart)):.2f}"
