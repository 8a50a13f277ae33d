"""Figure 3 as text: a table for each panel, and what becomes of the paper's claims."""

from collections.abc import Mapping, Sequence
from statistics import fmean

import torch

from metricopt.core.ranks import rank_correlation
from metricopt_lab.cells import Record
from metricopt_lab.markdown import heading, short, spread, table
from metricopt_lab.statistics.differences import Difference

PAIR: Mapping[str, str] = {"offline": "with L_oe", "offline-no-oe": "without L_oe"}
"""The value functions of panel (a)."""

COSTS = {"small_convnet": "1 - AUCPR", "resnet32": "error rate"}
"""What is lowered, by network."""

SCHEME_WORDS: Mapping[str, str] = {
    "loss": "loss only",
    "metric-es": "metric only, sampled",
    "metric-exact": "metric only, gradient",
    "subspace-es": "metric in loss subspace, sampled",
    "subspace-exact": "metric in loss subspace, gradient",
    "both-es": "loss + metric, sampled",
    "both-exact": "loss + metric, gradient",
}
"""Ways of meta-testing in words."""

PUBLISHED = {"offline": 0.023, "offline-no-oe": 0.052}
"""Prediction errors of the paper's caption: error rate, ResNet-32, trained with Reptile."""

HIGH = 0.7
"""Rank correlation from which "highly correlates" is called confirmed."""

NOTES = """All value functions of a seed learn from the same paths (Adam from random phi_0 on cross-entropy; "rounds"
replaces half of them by paths that follow the function learnt from the other half) and are judged by the same
observations, on paths held out from all of them. "no-oe" is trained without L_oe, "no-s" with all s_t equal; s_t is the
interpolation's own, but for "offline-floor", where the noise that finitely many images leave in the metric is its floor
(the package's default, which here makes all s_t equal). "reptile" has no BatchNorm and standardises, "paper" is Reptile
as literal as can be. Following one means Adam from phi = 0, the pre-trained network, on the loss gradient plus the
function's direction (Eq. 1 with lambda = 1); panel (c) varies this for "offline". "Gradient" is the mean of Eq. 4 in
closed form, 2 Sigma grad f; "metric only" has no loss, so that Sigma is round; "in loss subspace" is Eqs. 3 and 4 with
u_t in place of the loss gradient. Every path takes the rate of a grid whose end is best on the search images, one query
a rate. Test images only report. FiLM stands alone, as in the paper, whose figure is blank in our copy: of its numbers
the caption has two. ± is the standard deviation over seeds, and two standard errors where differences are judged."""

NOTHING_GAINED = """No way ends below the pre-trained network beyond two standard errors. Where nothing is gained, which
value function is followed and how makes no difference, and panels (b) and (c) tell nothing about either."""


def figure3_text(records: Sequence[Record]) -> str:
    """All tables and verdicts."""
    parts = [heading("Figure 3: value functions on CIFAR-10", records), NOTES]
    for network in dict.fromkeys(record["data"] for record in records):
        mine = [record for record in records if record["data"] == network]
        before = spread([record["test_before"] for record in mine])
        parts += [f"## {network}: {COSTS[network]}, lower is better, pre-trained {before} on test images"]
        parts += [mine[0]["problem"] + "."]
        parts += ["### (a) With and without the ordinal term", _ordinal(mine, network)]
        parts += ["### (b) Prediction error and final metric", _errors(mine)]
        parts += ["### (c) Ways of meta-testing", _schemes(mine)]
    return "\n\n".join(parts) + "\n"


def of(records: Sequence[Record], kind: str, name: str) -> list[Record]:
    """Records of a value function ("value") or a way of following one ("scheme"), one a seed."""
    return [record for record in records if (record["metric"], record["method"]) == (kind, name)]


def names(records: Sequence[Record], kind: str) -> list[str]:
    """Value functions or ways that there are records of."""
    return list(dict.fromkeys(record["method"] for record in records if record["metric"] == kind))


def paired(records: Sequence[Record], kind: str, pair: tuple[str, str], *, field: str) -> Difference:
    """A field of the first of a pair minus that of the second, seed by seed.

    Example:
        >>> row = {"seed": 0, "metric": "scheme"}
        >>> paired([row | {"method": "loss", "test_cost": 0.5}, row | {"method": "both-es", "test_cost": 0.25}],
        ...        "scheme", ("loss", "both-es"), field="test_cost").found
        [0.25]
    """
    other = {record["seed"]: record[field] for record in of(records, kind, pair[1])}
    mine = of(records, kind, pair[0])
    return Difference([record[field] - other[record["seed"]] for record in mine if record["seed"] in other])


def correlation(points: Sequence[tuple[float, float]]) -> float:
    """Spearman's, over points.

    Example:
        >>> correlation([(1.0, 0.1), (2.0, 0.2), (3.0, 0.9)])
        1.0
    """
    x, y = torch.tensor(points, dtype=torch.float64).T
    return rank_correlation(x, y)


def point(record: Record) -> tuple[float, float]:
    """Prediction error and final metric."""
    return record["prediction_error"], record["test_cost"]


def _ordinal(records: Sequence[Record], network: str) -> str:
    header = ["value function", "prediction error", "rank correlation", "spread of the metric", "observations a seed"]
    rows = []
    for name, words in PAIR.items():
        mine = of(records, "value", name)
        rows.append([words, *(spread([r[field] for r in mine]) for field in ("prediction_error", "rank_correlation",
                     "spread")), str(mine[0]["observations"])])  # fmt: skip
        if network == "resnet32":
            rows.append([f"published, {words}", short(PUBLISHED[name]), "—", "—", "—"])
    lines = [
        table(header, rows),
        "",
        "The paper: L_oe lowers the prediction error (.052 without, .023 with). Ours, with minus without:",
    ]
    for kind in ("offline", "reptile", "rounds"):
        found = paired(records, "value", (kind, f"{kind}-no-oe"), field="prediction_error")
        if found.found:
            lines.append(f"- {kind}: {found}: {'confirmed' if found.seen == 'lower' else 'not confirmed'}.")
    return "\n".join(lines)


def _errors(records: Sequence[Record]) -> str:
    header = ["training", "prediction error", "rank correlation", "final metric", "rates taken (seeds)", "queries"]
    rows = []
    for name in names(records, "value"):
        mine = of(records, "value", name)
        fields = ("prediction_error", "rank_correlation", "test_cost")
        rows.append([name, *(spread([r[field] for r in mine]) for field in fields), _rates(mine),
                     str(mine[0]["queries"])])  # fmt: skip
    return "\n".join([table(header, rows), "", *_correlations(records), *_uncertainty(records)])


def _correlations(records: Sequence[Record]) -> list[str]:
    values = [record for record in records if record["metric"] == "value"]
    means = [_mean_point(of(values, "value", name)) for name in names(values, "value")]
    points = correlation([point(record) for record in values])
    rest = correlation([point(record) for record in values if record["method"] != "paper"])
    verdict = "confirmed" if points >= HIGH else "not confirmed"
    return [
        "The paper: prediction error highly correlates with the final metric. Ours, rank correlation over",
        f"- {len(values)} points, one a value function and seed: {points:+.2f}: {verdict} (from {HIGH} on);",
        f'- the same without those of "paper": {rest:+.2f};',
        f"- {len(means)} means over seeds: {correlation(means):+.2f}.",
    ]


def _mean_point(records: Sequence[Record]) -> tuple[float, float]:
    errors, costs = zip(*map(point, records), strict=True)
    return fmean(errors), fmean(costs)


def _uncertainty(records: Sequence[Record]) -> list[str]:
    lines = ["", "The paper: encoding s_t is needed. Ours, with s_t minus all s_t equal:"]
    for kind in ("offline", "reptile", "rounds"):
        pair = (kind, f"{kind}-no-s")
        error, final = (paired(records, "value", pair, field=field) for field in ("prediction_error", "test_cost"))
        if error.found:
            seen = (error.seen, final.seen)
            verdict = "confirmed" if "lower" in seen and "higher" not in seen else "not confirmed"
            lines.append(f"- {kind}: prediction error {error}; final metric {final}: {verdict}.")
    return lines


def _schemes(records: Sequence[Record]) -> str:
    header = ["meta-testing", "final metric", "against pre-trained", "rates taken (seeds)", "queries"]
    rows = []
    for name in names(records, "scheme"):
        mine = of(records, "scheme", name)
        rows.append([
            SCHEME_WORDS[name], spread([r["test_cost"] for r in mine]),
            spread([r["test_cost"] - r["test_before"] for r in mine], sign=True), _rates(mine), str(mine[0]["queries"]),
        ])  # fmt: skip
    drop = paired(records, "scheme", ("loss", "both-es"), field="test_cost")
    alone = paired(records, "scheme", ("metric-es", "both-es"), field="test_cost")
    exact = paired(records, "scheme", ("both-exact", "both-es"), field="test_cost")
    return "\n".join([
        table(header, rows), "", "Against loss + metric, sampled, which is the paper's, the final metric of",
        f"- loss only: {drop}. The paper sees a large drop without the metric: "
        f"{'confirmed' if drop.seen == 'higher' else 'not confirmed'}.",
        f"- metric only, sampled: {alone}. The paper says that leaving out the loss barely hurts: "
        f"{'not confirmed' if alone.seen == 'higher' else 'not contradicted'}.",
        f"- loss + metric, gradient: {exact}.", *_nothing_gained(records),
    ])  # fmt: skip


def _nothing_gained(records: Sequence[Record]) -> list[str]:
    """A warning where no way of meta-testing ends below the pre-trained network."""
    for name in names(records, "scheme"):
        found = Difference([r["test_cost"] - r["test_before"] for r in of(records, "scheme", name)])
        if found.seen == "lower":
            return []
    return ["", NOTHING_GAINED]


def _rates(records: Sequence[Record]) -> str:
    rates = sorted(record["rate"] for record in records)
    return ", ".join(f"{rate:g} ({rates.count(rate)})" for rate in dict.fromkeys(rates))
