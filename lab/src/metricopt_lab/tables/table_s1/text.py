"""Table S1 as text: ours beside the published accuracies."""

from collections.abc import Sequence
from statistics import mean, stdev

from metricopt_lab.cells import Record
from metricopt_lab.markdown import heading, table

PUBLISHED = (
    ("RMSProp + cross-entropy", "73.5", "91.5"),
    ("MetricOpt (SGD)", "74.9", "92.7"),
    ("MetricOpt (learned)", "75.0", "93.0"),
)
"""The paper's figures in percent, with NASNet-A on ImageNet, of one run."""

NOTES = """\
Notes
- The paper's problem is ImageNet with NASNet-A, which no processor trains on. Here: 64 classes of Tiny ImageNet and
  a small network, so accuracies do not compare, and of directions only those that test images can resolve.
- A row is about the accuracy that it improves: top-1 where error is the metric, top-5 where that of five classes is.
  rmsprop finetunes phi on cross-entropy at the best of six rates, metricopt_paper is the paper's recipe over SGD with
  its two declared deviations, metricopt_learned the optimizer of the supplement, meta-trained on this network.
- Differences are of the same network and test images, seed by seed; ± is the standard deviation over seeds."""


def table_s1_text(records: Sequence[Record]) -> str:
    """The table, in percent.

    Example:
        >>> row = {"scale": "small", "seed": 0, "metric": "top1", "test_top1": 0.25, "test_top5": 0.5, "queries": 0,
        ...        "seconds": 1.0, "problem": "made up"}
        >>> "25.00" in table_s1_text([{**row, "method": "pretrained"}])
        True
    """
    first = records[0]
    methods = list(dict.fromkeys(record["method"] for record in records))
    header = ["origin", "method", "top-1", "against pretrained", "top-5", "against pretrained", "queries", "seconds"]
    ours = [_row(records, method) for method in methods]
    published = [["published", name, top1, "", top5, "", "", ""] for name, top1, top5 in PUBLISHED]
    return "\n\n".join([
        heading("Table S1, top-1 and top-5 accuracy on Tiny ImageNet", records),
        f"{first['problem']}. In percent.",
        table(header, ours + published),
        NOTES,
    ]) + "\n"  # fmt: skip


def _row(records: Sequence[Record], method: str) -> list[str]:
    cells = [f"ours, {records[0]['scale']}", method]
    for metric in ("top1", "top5"):
        values = {r["seed"]: r for r in records if (r["method"], r["metric"]) == (method, metric)}
        start = {r["seed"]: r for r in records if (r["method"], r["metric"]) == ("pretrained", metric)}
        name = f"test_{metric}"
        gains = [values[seed][name] - start[seed][name] for seed in values if seed in start]
        cells += [_percent([record[name] for record in values.values()])]
        cells += ["" if method == "pretrained" else _percent(gains, sign=True)]
    mine = [record for record in records if record["method"] == method]
    return [*cells, f"{mean(r['queries'] for r in mine):.0f}", f"{mean(r['seconds'] for r in mine):.0f}"]


def _percent(values: Sequence[float], *, sign: bool = False) -> str:
    if not values:
        return "—"
    middle = f"{100 * mean(values):+.2f}" if sign else f"{100 * mean(values):.2f}"
    return f"{middle} ± {100 * stdev(values):.2f}" if len(values) > 1 else middle
