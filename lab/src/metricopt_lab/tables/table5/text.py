"""Table 5 as text: recall at each k, gains paired over seeds, and what test classes can tell apart."""

from collections.abc import Sequence
from statistics import fmean

import numpy as np

from metricopt_lab.cells import Record
from metricopt_lab.markdown import heading, short, spread, table
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
    "labels": "loss of the labelled images",
    "labels_weights": "loss of the labelled images, all weights",
    "dense": "loss of the labelled images, best of the path",
    "metricopt_paper": "MetricOpt, two stages over SGD",
    "metricopt_adapter": "MetricOpt, tune='adapter'",
    "metricopt": "MetricOpt, default (all weights)",
}

OURS = ("fast_ap metricopt", "fast_ap metricopt_adapter", "recall metricopt_adapter")
SEARCHES = ("cma_es", "snes")

NOTES = """\
Notes
- The published figures are of ResNet-50 on 60,502 product images; ours are of a network of 128,128 weights on Omniglot:
  compare gains, not values. Recall depends on the size of the gallery.
- All methods are given the same labelled classes, which neither the network nor the test has seen, and the same grant
  of queries of recall@1. Training images are as they were when the network was trained; in the disturbed conditions
  the labelled and the test images are disturbed alike. Methods that search phi ask about 60 of every 100 labelled
  classes, and the others decide; the losses learn from all of them; so does the default, fold by fold, which is asked
  about and judged on classes that a network has not seen.
- The first three blocks, the backbone, are frozen for everybody and computed once an image. phi has 128 coordinates,
  FiLM after the last BatchNorm; all weights are the 53,440 of the last block and layer.
- "loss of the training images" is loss-only finetuning of phi where the new images have no labels; "loss of the
  labelled images" learns from the labels behind the metric. With tune='adapter' MetricOpt starts from both and asks the
  metric on top; its two stages follow the loss of training images as in the paper. CMA-ES and SNES know the metric
  alone.
- Values of MetricOpt are of what `optimize` returns: the original where the proposal was not accepted ("kept" counts
  those that were). Values of others are of the proposal; "-" where all labels were learnt from and none can decide.
- Queries of the default are about all labelled classes, one gallery a fold: three calls of the metric each.
- ± in the tables of values is the standard deviation over seeds. Gains are paired over seeds; their ± is two standard
  errors over seeds. The test classes are the same for all seeds: what they can resolve is told apart, as the standard
  deviation of a gain over resamples of the test classes."""


def table5_text(records: Sequence[Record]) -> str:
    """All conditions, one below the other."""
    parts = [heading("Table 5", records)]
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
        decided = [record["accepted"] for record in mine if record["accepted"] is not None]
        kept = f"{sum(decided)}/{len(decided)}" if decided else "-"
        values = [spread([after[place] for after in returned]) for place in range(len(ks))]
        cpu = fmean(record["cpu_seconds"] for record in mine)
        queries = f"{fmean(record['queries'] for record in mine):.0f}"
        rows.append([_named(method), *values, _gain(gains), short(resolved), kept, queries, f"{cpu:.0f}"])
    heading = ["method", *(f"R@{k}" for k in ks), "gain of R@1", "by test classes", "kept", "queries", "CPU s"]
    return table(heading, rows)


def _returned(record: Record) -> list[float]:
    """Recall at each k of what a user would have: `optimize` gives the original back unless the new one is accepted."""
    ours = record["method"].endswith((" metricopt", " metricopt_adapter"))
    return record["before"] if ours and not record["accepted"] else record["after"]


def _against(records: list[Record]) -> str:
    """Each row of ours against the rows beside it, paired over seeds."""
    parts = []
    for own in OURS:
        loss = own.partition(" ")[0]
        ours = {r["seed"]: _returned(r)[0] for r in records if r["method"] == own}
        lines = []
        for other in ("original", *(f"{loss} {kind}" for kind in ("loss_only", "labels", "labels_weights")), *SEARCHES):
            theirs = {r["seed"]: _returned(r)[0] for r in records if r["method"] == other}
            both = sorted(ours.keys() & theirs.keys())
            if both:
                difference = Difference([ours[seed] - theirs[seed] for seed in both])
                lines.append(f"- {_named(other)}: {_told(difference)}")
        if lines:
            parts.append("\n".join([f"{_named(own)}, recall@1 minus that of another row, paired over seeds:", *lines]))
    return "\n\n".join(parts)


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
