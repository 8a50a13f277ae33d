"""Figure 4 as text: where the curves end, and what becomes of the paper's claim."""

from collections.abc import Mapping, Sequence

from metricopt_lab.cells import Record
from metricopt_lab.markdown import heading, spread, table
from metricopt_lab.statistics.differences import Difference

METHODS: Mapping[str, str] = {
    "sgd": "SGD on the loss",
    "adam": "Adam on the loss",
    "power_sign": "PowerSign-cd on the loss",
    "lstm": "LSTM, learned on the loss",
    "mlp": "MLP, learned on the loss",
    "metricopt_sgd": "MetricOpt (SGD)",
    "metricopt_adam": "MetricOpt (Adam)",
    "metricopt_learned": "MetricOpt (learned)",
    "metricopt_learned_value": "MetricOpt (learned), value kept",
    "metricopt_learned_whole": "MetricOpt (learned), all of phi at once",
    "search": "default search",
}
"""Names in words."""

LOSS_OF: Mapping[str, str] = {"metricopt_sgd": "sgd", "metricopt_adam": "adam"}
"""The same optimizer on the loss alone."""

CLAIM = "MetricOpt with either SGD or Adam ends lower than the same optimizer on cross-entropy"

NOTES = """Finetuning starts at phi = 0, the pre-trained network, and follows mini-batches of cross-entropy. MetricOpt
adds the direction of a value function (Eq. 1 with lambda = 1, its length fitted to the loss gradients, Eq. 4 in closed
form), which is learnt once a run on paths of the same optimizer (two rounds; trained offline with L_oe, because the
paper's Reptile with BatchNorm gives flat functions here). Every method takes the rate of a grid whose path ends lowest
on the search images: one query a rate, counted in the table. The default search is this package's own, on the same phi
and within the same budget as MetricOpt; it has no finetuning steps, so it is a line. All runs have the same shipped
network; images to train on and to query, FiLM's matrices and mini-batches are each run's own. Test images only report:
their costs are computed after the run on vectors kept along the path. The paper's figure is blank in our copy. Learned
optimizers were meta-trained once, on another split, other FiLM matrices and other mini-batches (seed 100) than any run
here, and try multiples of their own rate; [what they are and what they cost](learned.md). Only the one whose MLP sees
all of phi at once is meta-trained in each run, on its own search images: the paper, too, meta-tests where it has
meta-trained."""

PUBLISHED = """For the same metric its Table 2 prints .154 for cross-entropy, .092 ± .0018 for cross-entropy finetuned
with dense metric evaluation and .043 ± .0012 for MetricOpt (SGD), on a network of its own and with 500 tasks or more:
compare directions, not values."""


def figure4_text(records: Sequence[Record]) -> str:
    """The table and the verdicts."""
    first = records[0]
    parts = [heading("Figure 4: 1 - AUCPR along finetuning on CIFAR-10", records, of="run")]
    parts += [NOTES, first["problem"] + "."]
    parts += [f"1 - AUCPR on test images, lower is better, mean ± standard deviation; at step 0 {_start(records)}:"]
    parts += [_table(records), _verdicts(records), PUBLISHED]
    return "\n\n".join(parts) + "\n"


def of(records: Sequence[Record], method: str) -> list[Record]:
    """Records of a method, one a run."""
    return [record for record in records if record["method"] == method]


def differences(records: Sequence[Record], method: str, other: str) -> Difference:
    """Cost at the end of a method minus that of another in the same run; negative is better.

    Example:
        >>> differences([{"seed": 0, "method": "sgd", "test_costs": [0.5, 0.5]},
        ...              {"seed": 0, "method": "search", "test_costs": [0.5, 0.25]}], "search", "sgd").found
        [-0.25]
    """
    ends = {record["seed"]: record["test_costs"][-1] for record in of(records, other)}
    mine = of(records, method)
    return Difference([record["test_costs"][-1] - ends[record["seed"]] for record in mine if record["seed"] in ends])


def _learned_verdicts(records: Sequence[Record]) -> list[str]:
    """The learned optimizer against all others that walk as many steps; nothing where it was not measured."""
    lines = []
    for method in ("metricopt_learned", "metricopt_learned_value", "metricopt_learned_whole"):
        if not of(records, method):
            continue
        lines += ["", f"{METHODS[method]} less others in the same runs, with two standard errors over runs:"]
        others = [each for each in METHODS if each not in (method, "search") and of(records, each)]
        lines += [f"- minus {METHODS[each]}: {differences(records, method, each)}." for each in others]
    return lines


def _start(records: Sequence[Record]) -> str:
    return spread([record["test_costs"][0] for record in records])


def _table(records: Sequence[Record]) -> str:
    header = ["method", "runs", "at the end", "against the start", "queries", "and in meta-training"]
    header += ["rates taken (runs)", "rank correlation"]
    rows = []
    for method in dict.fromkeys(record["method"] for record in records):
        mine = of(records, method)
        curves = [record["test_costs"] for record in mine]
        rows.append([
            METHODS[method], str(len(mine)), spread([curve[-1] for curve in curves]),
            spread([c[-1] - c[0] for c in curves], sign=True), str(mine[0]["queries"]),
            str(mine[0].get("meta_queries", 0)), _rates(mine),
            spread([record["rank_correlation"] for record in mine]),
        ])  # fmt: skip
    return table(header, rows)


def _rates(records: Sequence[Record]) -> str:
    rates = sorted(record["rate"] for record in records if "rate" in record)
    return ", ".join(f"{rate:g} ({rates.count(rate)})" for rate in dict.fromkeys(rates)) or "—"


def _verdicts(records: Sequence[Record]) -> str:
    lines = [f'The paper: "{CLAIM}". Paired differences at the end, with two standard errors over runs:']
    for method, other in LOSS_OF.items():
        found = differences(records, method, other)
        verdict = "confirmed" if found.seen == "lower" else "not confirmed"
        lines.append(f"- {METHODS[method]} minus {METHODS[other]}: {found}: {verdict}.")
    lines += _learned_verdicts(records)
    lines += ["", "Beside the paper:"]
    lines += [f"- default search minus {METHODS[each]}: {differences(records, 'search', each)}." for each in LOSS_OF]
    return "\n".join(lines)
