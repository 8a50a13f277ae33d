"""Table 5 as text: recall at each k, gains paired over seeds, and what test classes can tell apart."""

from collections.abc import Sequence
from statistics import fmean

import numpy as np

from metricopt_lab.cells import Record
from metricopt_lab.markdown import short, spread, table
from metricopt_lab.statistics.differences import Difference

PUBLISHED = [
    ("FastAP", (0.764, 0.891, 0.954, 0.985)),
    ("Recall loss", (0.786, 0.905, 0.960, 0.987)),
    ("MetricOpt + FastAP", (0.796, 0.912, 0.963, 0.989)),
    ("MetricOpt + Recall loss", (0.804, 0.918, 0.965, 0.990)),
]
"""Recall at 1, 10, 100 and 1000 of the paper's Table 5, on Stanford Online Products."""

WORDS = {
    "original": "the network as it is",
    "cma_es": "CMA-ES on phi",
    "snes": "SNES on phi",
    "loss_only": "loss of the training images",
    "labels": "loss of the metric's own images",
    "dense": "the same, best of the path",
    "metricopt_paper": "MetricOpt, two stages over SGD",
    "metricopt": "MetricOpt, default",
}

NOTES = """\
Notes
- The published figures are of ResNet-50 on 60,502 product images; ours are of a network of 128,128 weights on Omniglot:
  compare gains, not values. Recall depends on the size of the gallery.
- Every method on phi has the same 128 coordinates (FiLM after the last two BatchNorms) and the same grant of queries of
  recall@1, on classes that neither the network nor the test has seen. Training images are as they were when the network
  was trained; in the disturbed conditions the metric's, the deciding and the test images are disturbed alike.
- "loss of the training images" is loss-only finetuning where the new images have no labels; "loss of the metric's own
  images" learns from the labels behind the metric. MetricOpt's default search starts from both and asks the metric on
  top; its two stages follow the loss of training images as in the paper. CMA-ES and SNES know the metric alone.
- Values of MetricOpt's default are of what it returns: the original where the proposal was not accepted on classes that
  were never asked about ("kept" counts those that were). Values of others are of the proposal.
- ± in the tables of values is the standard deviation over seeds. Gains are paired over seeds; their ± is two standard
  errors over seeds. The test classes are the same for all seeds: what they can resolve is told apart, as the standard
  deviation of a gain over resamples of the test classes."""


def table5_text(records: Sequence[Record]) -> str:
    """All conditions, one below the other."""
    first = records[0]
    seeds = len({record["seed"] for record in records})
    scale = "paper" if first["scale"] == "paper" else f"{first['scale']} (not the paper's)"
    parts = [f"# Table 5, scale {scale}, {seeds} seed{'s' if seeds > 1 else ''}"]
    for condition in dict.fromkeys(record["data"] for record in records):
        parts += _section(condition, [record for record in records if record["data"] == condition])
    published = table(["method", *(f"R@{k}" for k in (1, 10, 100, 1000))],
                      [[name, *(short(value) for value in values)] for name, values in PUBLISHED])  # fmt: skip
    return "\n\n".join([*parts, "## Published, Stanford Online Products", published, NOTES]) + "\n"


def _section(condition: str, records: list[Record]) -> list[str]:
    about = "images as trained" if condition == "clean" else f"images disturbed: {condition}"
    first = records[0]
    error = short(first["test_standard_error"])
    return [
        f"## {condition} ({about}); {first['budget']} queries granted",
        f"{first['problem']}. Standard error of recall@1 due to the test classes: {error}.",
        _values(records),
        _against(records),
    ]


def _values(records: list[Record]) -> str:
    ks = records[0]["ks"]
    rows = []
    for method in dict.fromkeys(record["method"] for record in records):
        mine = [record for record in records if record["method"] == method]
        returned = [_returned(record) for record in mine]
        gains = [after[0] - record["before"][0] for after, record in zip(returned, mine, strict=True)]
        resolved = fmean(float(np.std(record["resampled_gains"])) for record in mine)
        kept = f"{sum(record['accepted'] for record in mine)}/{len(mine)}"
        values = [spread([after[place] for after in returned]) for place in range(len(ks))]
        cpu = fmean(record["cpu_seconds"] for record in mine)
        queries = f"{fmean(record['queries'] for record in mine):.0f}"
        rows.append([_named(method), *values, _gain(gains), short(resolved), kept, queries, f"{cpu:.0f}"])
    heading = ["method", *(f"R@{k}" for k in ks), "gain of R@1", "by test classes", "kept", "queries", "CPU s"]
    return table(heading, rows)


def _returned(record: Record) -> list[float]:
    """Recall at each k of what a user would have: MetricOpt's default gives the original back unless it is accepted."""
    return record["before"] if record["method"].endswith(" metricopt") and not record["accepted"] else record["after"]


def _against(records: list[Record]) -> str:
    """MetricOpt's default over each loss against the rows beside it, paired over seeds."""
    lines = ["MetricOpt's default minus another row, recall@1 paired over seeds:"]
    for loss in ("fast_ap", "recall"):
        ours = {r["seed"]: _returned(r)[0] for r in records if r["method"] == f"{loss} metricopt"}
        for other in ("original", f"{loss} loss_only", f"{loss} labels", "cma_es", "snes"):
            theirs = {r["seed"]: _returned(r)[0] for r in records if r["method"] == other}
            both = sorted(ours.keys() & theirs.keys())
            if both:
                difference = Difference([ours[seed] - theirs[seed] for seed in both])
                lines.append(f"- over {loss}, against {_named(other)}: {_told(difference)}")
    return "\n".join(lines)


def _gain(gains: list[float]) -> str:
    mean = short(fmean(gains), sign=True)
    return mean if len(gains) < 2 else f"{mean} ± {short(Difference(gains).doubt)}"


def _told(difference: Difference) -> str:
    """A difference of recall: higher is better."""
    mean = short(difference.mean, sign=True)
    if len(difference.found) < 2:
        return f"{mean} (one seed)"
    words = {"higher": "better", "lower": "worse"}.get(difference.seen, "no difference is resolved")
    above = sum(each > 0 for each in difference.found)
    return f"{mean} ± {short(difference.doubt)}, {words} (above 0 in {above} of {len(difference.found)} seeds)"


def _named(method: str) -> str:
    loss, _, kind = method.partition(" ")
    return f"{loss}: {WORDS[kind]}" if kind else WORDS[method]
