"""Table 3 as text: ours beside the published numbers, and what can and cannot be compared."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from statistics import mean, stdev

from metricopt_lab.cells import Record
from metricopt_lab.markdown import heading, short, spread, table
from metricopt_lab.problems.tabular_scales import SCALES
from metricopt_lab.tables.claims import WORDS, Claim, Difference, claims_table

COLUMNS: dict[str, tuple[str, Callable[[float], float]]] = {
    "MCR": ("mcr", lambda value: value),
    "JAC (accuracy)": ("mcr", lambda value: 1 - value),
    "Jaccard": ("jaccard", lambda value: value),
    "F": ("f1", lambda value: value),
}
"""Heading of each column, the metric it is read off, and how."""

PUBLISHED: dict[str, list[tuple[str, float, float, float]]] = {
    "a9a": [
        ("CE / LO / CS", 0.1520, 0.8461, 0.6823),
        ("SL", 0.1502, 0.8488, 0.6866),
        ("MetricOpt", 0.1369, 0.8691, 0.6934),
    ],
    "covtype2": [
        ("CE / LO / CS", 0.2149, 0.7406, 0.7695),
        ("SL", 0.2198, 0.7808, 0.7898),
        ("MetricOpt", 0.2057, 0.7758, 0.8013),
    ],
}
"""MCR, JAC and F of the paper's Table 3, by data set and method."""

NOTES = """\
Notes
- Before and after are on test data that nothing was chosen on. A gain is paired: over the same pre-trained network on
  the same rows, turned so that positive is better. ± is the standard deviation over seeds. "kept" counts the seeds in
  which the proposal passed the acceptance test on rows that were never queried; the values are those of the proposal.
- Every method on phi has the same adapter (16 dynamic biases, output affine), except metricopt_paper and
  metricopt_letter (16 dynamic biases alone, as in the paper). metricopt_paper is the paper's recipe with two declared
  deviations, metricopt_letter its text to the letter, both with rates that are found. sl_weights and the losses move
  all weights. No method sees validation labels other than through the metric.
- The paper's JAC is accuracy: its F of .6934 on A9A means a Jaccard index of .531, not .8691. The column JAC (accuracy)
  is 1 - MCR of the same runs; Jaccard is the true one of the positive class and has no published figure.
- The published A9A MCR of .1369 is below what anything reaches on these features (boosted trees: .1496 ± .0028 over
  five such splits). An MCR below .145 here would be a mistake until proven otherwise.
- The paper draws class-balanced batches for all methods. These alone give an A9A MCR near .20 at threshold 1/2, so its
  .1520 for cross-entropy must include a correction that it does not describe: compare gains, not values. Its table has
  neither seeds nor spread.
- lovasz and cost_sensitive train all weights on for some epochs. sl is a surrogate learnt from the metric of
  mini-batches and then followed, on phi and (sl_weights) on all weights; its sizes are ours. Rates, steps and epochs of
  these rows were chosen on other splits with class-balanced mini-batches (`metricopt run rival-paces`); with plain
  ones they are what they were before."""


def table3_text(records: Sequence[Record]) -> str:
    """All tables, one pair for each data set and sampling.

    Example:
        >>> record = dict(scale="smoke", data="a9a", sampling="plain", seed=0, metric="f1", method="ce", before=0.6,
        ...               after=0.6, gain=0.0, accepted=False, queries=0, seconds=0.1, rank_correlation=None,
        ...               warnings=[], budget=20)
        >>> print(table3_text([record]).splitlines()[0])
        # Table 3, scale smoke (not the paper's), 1 seed
    """
    parts = [heading("Table 3", records)]
    for (data, sampling), some in groupby(records, lambda record: (record["data"], record["sampling"])):
        parts += _section(data, sampling, list(some))
    return "\n\n".join([*parts, _health(records), NOTES]) + "\n"


def _section(data: str, sampling: str, records: list[Record]) -> list[str]:
    scale = records[0]["scale"]
    drawn = "class-balanced mini-batches, as in the paper" if sampling == "balanced" else "plain mini-batches"
    claims = ["Claims of the paper, one verdict each:", _claims(data, records), WORDS] if sampling == "balanced" else []
    return [
        f"## {data}, {drawn}; {SCALES[scale].rows[data].words}, {records[0]['budget']} queries granted",
        _values(data, sampling, records),
        "Paired gain over the same pre-trained network:",
        _gains(records),
        *claims,
    ]


def _claims(data: str, records: list[Record]) -> str:
    """One table of MCR and F; JAC is 1 - MCR, of which the same runs tell."""
    figures = {name: {"mcr": mcr, "f1": f} for name, mcr, _, f in PUBLISHED[data]}
    rivals = {"CE / LO / CS": ("ce", "lovasz", "cost_sensitive"), "SL": ("sl", "sl_weights")}
    claims = [
        Claim(
            f"{metric}: better than {name}",
            rows,
            sign * (figures["MetricOpt"][metric] - figures[name][metric]),
            metric=metric,
        )
        for metric, sign in (("mcr", -1), ("f1", 1))
        for name, rows in rivals.items()
    ]
    return claims_table(claims, partial(_against, records))


def _against(records: list[Record], claim: Claim, method: str) -> Difference | None:
    """Of a method and the best of a rival's rows, paired by seed; of one seed nothing is known of the error."""
    names = (method, *claim.rivals)
    gains = {name: {r["seed"]: r["gain"] for r in _of(records, name, claim.metric)} for name in names}
    known = [name for name in claim.rivals if gains[name].keys() & gains[method].keys()]
    if not known:
        return None
    rival = max(known, key=lambda name: mean(gains[name].values()))
    each = [gain - gains[rival][seed] for seed, gain in gains[method].items() if seed in gains[rival]]
    return Difference(mean(each), stdev(each) / len(each) ** 0.5 if len(each) > 1 else math.inf, len(each))


def _values(data: str, sampling: str, records: list[Record]) -> str:
    methods = list(dict.fromkeys(record["method"] for record in records))
    rows = [
        [f"ours, {records[0]['scale']}", method, *(_value(records, method, column) for column in COLUMNS)]
        for method in methods
    ]
    published = PUBLISHED.get(data, []) if sampling == "balanced" else []
    rows += [["published", name, short(m), short(j), "—", short(f)] for name, m, j, f in published]
    return table(["origin", "method", *COLUMNS], rows)


def _value(records: list[Record], method: str, column: str) -> str:
    metric, read = COLUMNS[column]
    return spread([read(record["after"]) for record in _of(records, method, metric)])


def _gains(records: list[Record]) -> str:
    methods = list(dict.fromkeys(record["method"] for record in records))
    metrics = list(dict.fromkeys(record["metric"] for record in records))
    rows = []
    for method in methods:
        mine = [record for record in records if record["method"] == method]
        gains = [spread([record["gain"] for record in _of(mine, method, metric)], sign=True) for metric in metrics]
        kept = [f"{sum(r['accepted'] for r in _of(mine, method, metric))}/{len(_of(mine, method, metric))}"
                for metric in metrics]  # fmt: skip
        queries, seconds = (mean(record[name] for record in mine) for name in ("queries", "seconds"))
        rows.append([method, *gains, " ".join(kept), f"{queries:.0f}", f"{seconds:.1f}"])
    return table(["method", *metrics, f"kept ({' '.join(metrics)})", "queries", "seconds"], rows)


def _of(records: list[Record], method: str, metric: str) -> list[Record]:
    return [record for record in records if (record["method"], record["metric"]) == (method, metric)]


def _health(records: Sequence[Record]) -> str:
    """Rank correlation of the value functions with answers they had not seen."""
    lines = ["Rank correlation of the value function with observations it had not seen (mean ± spread):"]
    for data in dict.fromkeys(record["data"] for record in records):
        for method in ("metricopt", "metricopt_paper", "metricopt_letter"):
            mine = [record for record in records if (record["data"], record["method"]) == (data, method)]
            flat = sum(any("flat" in warning for warning in record["warnings"]) for record in mine)
            loud = f"; FLAT in {flat} of {len(mine)} runs: there it tells nothing about the metric" if flat else ""
            lines.append(f"- {data}, {method}: {spread([record['rank_correlation'] for record in mine])}{loud}")
    return "\n".join(lines)
