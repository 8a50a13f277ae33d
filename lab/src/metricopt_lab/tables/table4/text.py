"""The text of Table 4: ours beside the published figures, and one verdict a claim."""

from collections.abc import Mapping, Sequence
from statistics import mean, stdev

from metricopt_lab.cells import Record
from metricopt_lab.markdown import heading, table
from metricopt_lab.tables.claims import Difference, verdict
from metricopt_lab.tables.table4.methods import METHODS

PUBLISHED = {
    "rmsprop": (73.5, 91.5),
    "power_sign": (73.9, 91.9),
    "ala": (74.3, 92.1),
    "metricopt_resnet18": (74.2, 92.3),
    "metricopt_cifar10": (74.4, 92.2),
    "metricopt": (74.9, 92.7),
    "second_run": (75.1, 93.0),
}
"""Top-1 and top-5 accuracy on ImageNet."""

CLAIMS = (
    ("transferred from CIFAR-10, it beats RMSProp with cross-entropy", "metricopt_cifar10", "rmsprop", 0.9),
    ("transferred from CIFAR-10, it beats PowerSign-cd", "metricopt_cifar10", "power_sign", 0.5),
    ("transferred from the smaller network, it beats RMSProp with cross-entropy", "metricopt_resnet18", "rmsprop", 0.7),
    ("learnt on the spot, it beats transfer from CIFAR-10", "metricopt", "metricopt_cifar10", 0.5),
    ("learnt on the spot, it beats transfer from the smaller network", "metricopt", "metricopt_resnet18", 0.7),
    ("the second run adds a little", "second_run", "metricopt", 0.2),
)
"""Words, the better row, the other one, and by how many points of top-1."""

LOSSES = ("rmsprop", "power_sign", "ala")
"""Rows that follow a loss, at rates that were not tuned here."""

NOTES = """\
All rows begin at one pre-trained network and have as many further steps: the loss's rows of all weights, with images
mirrored and shifted as in pre-training, MetricOpt's of phi. Not among them, as in the paper, are the paths that a value
function is learnt from; further runs have further steps, of theta as many again and of phi a fifth. Our default search
follows the loss for 500 steps first. Rates of theta were not tuned: where a loss ends below the pre-trained network,
which is what a rate of 0 gives, a row has to beat that instead. Queries elsewhere (meta-training) and on the new task
are told apart. A claim is confirmed if the 95% interval of the paired difference is above 0, not confirmed if it is not
and ends below the published difference, and not resolvable here if it holds both. The published figures are of ImageNet
and a NASNet-A a hundred times as large: what can be compared are differences, not levels."""


def gain_of(records: Sequence[Record], method: str, rival: str = "pretrained") -> Difference:
    """Mean gain of a row over another in top-1, seed by seed, with the larger of its two standard errors.

    Of seeds, and of the test images, resampled alike for all rows.

    Example:
        >>> one = dict(method="metricopt", seed=0, gain=0.1, resampled_gains=[0.09, 0.11])
        >>> other = {**one, "method": "pretrained", "gain": 0.0, "resampled_gains": [0.0, 0.0]}
        >>> gain_of([one, other], "metricopt").mean
        0.1
    """
    return _combined(records, {method: 1, rival: -1} if method != rival else {method: 0})


def _combined(records: Sequence[Record], weights: Mapping[str, int]) -> Difference:
    """Mean over seeds of a weighted sum of rows' gains, with the larger of its two standard errors."""
    rows = {name: {r["seed"]: r for r in records if r["method"] == name} for name in weights}
    seeds = sorted(set.intersection(*(set(by_seed) for by_seed in rows.values())))
    gains = [sum(weight * rows[name][seed]["gain"] for name, weight in weights.items()) for seed in seeds]
    resamples = range(len(next(iter(rows.values()))[seeds[0]]["resampled_gains"]))
    resampled = [
        mean(sum(w * rows[name][seed]["resampled_gains"][at] for name, w in weights.items()) for seed in seeds)
        for at in resamples
    ]
    spread = stdev(gains) / len(gains) ** 0.5 if len(gains) > 1 else 0.0
    images = stdev(resampled)
    return Difference(mean(gains), max(spread, images), len(gains) if spread > images else None)


def table4_text(records: Sequence[Record]) -> str:
    """The whole text."""
    first = records[0]
    methods = list(dict.fromkeys(record["method"] for record in records))
    error = 100 * first["test_standard_error"]
    header = ["method", "top-1", "top-5", "gain, top-1", "queries here", "elsewhere", "published top-1", "top-5"]
    parts = [
        heading("Table 4, NASNet-A on Tiny ImageNet", records),
        f"{first['problem']}. In percent. The standard error of the pre-trained network's top-1 due to the test images "
        f"is {error:.2f}; differences are paired and resolve more.",
        table(header, [_row(records, method) for method in methods]),
        "Claims of the paper, one verdict each, in points of top-1:",
        table(
            ["claim", "published", "here", "verdict"], [_claim(records, *claim) for claim in CLAIMS] + _rounds(records)
        ),
        NOTES,
    ]
    return "\n\n".join(parts) + "\n"


def _row(records: Sequence[Record], method: str) -> list[str]:
    mine = [record for record in records if record["method"] == method]
    found = gain_of(records, method)
    gain = "" if method == "pretrained" else f"{100 * found.mean:+.2f} ± {100 * found.error:.2f}"
    top1, top5 = (100 * mean(record[name] for record in mine) for name in ("after", "top5_after"))
    queries = [f"{mean(record[name] for record in mine):,.0f}" for name in ("queries", "meta_queries")]
    published = [f"{number:.1f}" for number in PUBLISHED.get(method, ())] or ["", ""]
    return [METHODS[method], f"{top1:.2f}", f"{top5:.2f}", gain, *queries, *published]


def _claim(records: Sequence[Record], words: str, method: str, rival: str, published: float) -> list[str]:
    known = {record["method"] for record in records}
    if not {method, rival} <= known:
        return [words, f"{published:+.1f}", "—", verdict(None, published / 100)]
    against = _at_its_best(records, rival)
    found = gain_of(records, method, against)
    shown = f"{100 * found.mean:+.2f} ± {100 * found.error:.2f}{' (over the pre-trained)' if against != rival else ''}"
    return [words, f"{published:+.1f}", shown, verdict(found, published / 100)]


def _at_its_best(records: Sequence[Record], rival: str) -> str:
    """A loss that loses might have had a rate of 0: to beat it is to beat the pre-trained network too."""
    return "pretrained" if rival in LOSSES and gain_of(records, rival).mean < 0 else rival


def _rounds(records: Sequence[Record]) -> list[list[str]]:
    """Whether the third run adds less than the second did; the paper gives no number."""
    if not {"metricopt", "second_run", "third_run"} <= {record["method"] for record in records}:
        return []
    # One combination of three rows: errors of the two gains, which share the second run, do not simply add.
    less = _combined(records, {"second_run": 2, "metricopt": -1, "third_run": -1})
    shown = f"{100 * less.mean:+.2f} ± {100 * less.error:.2f}"
    return [["more rounds add less: the second's gain less the third's", "above 0", shown, verdict(less, 0.001)]]
