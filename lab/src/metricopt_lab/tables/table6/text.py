"""Table 6 as text: ours beside the published numbers, what the images can resolve, and what was chosen how."""

from collections.abc import Sequence
from statistics import mean

from metricopt_lab.cells import Record
from metricopt_lab.markdown import heading, short, spread, table
from metricopt_lab.tables.table6.gains import Gain, gain_of, returned
from metricopt_lab.tables.table6.methods import METHODS, OURS

PUBLISHED = [
    ("Cross-entropy", "74.2", "80.4"),
    ("AP loss (Rolínek et al.)", "75.7", "81.4"),
    ("MetricOpt + cross-entropy", "77.8", "82.3"),
    ("MetricOpt + AP loss", "78.3", "82.6"),
]
"""AP50 in percent on VOC 07 test: trained on VOC 07, and on VOC 07 + 12."""

CONDITIONS = {
    "as_trained": "images as trained",
    "pixel_noise": "pixel noise (standard deviation 20 of 255)",
    "half_brightness": "half the light",
    "blur": "out of focus (5 x 5 mean, twice)",
    "other_stain": "another stain (channels mixed, contrast 0.8)",
    "voc07": "VOC 07",
    "voc07_12": "VOC 07 + 12",
}

NOTES = """\
Notes
- The detector is torchvision's Faster R-CNN on EfficientNet-Lite0, trained on 205 images of blood cells (BCCD); the
  paper's is a ResNet-50 on VOC. Only gains compare. AP50 is COCO's: 101 points of recall, mean over three classes.
- The 159 images it has not seen are cut into five folds, one a seed: results are reported on a fold that no search
  of that seed has seen; of the others three fifths are searched and two fifths decide what is kept. So each image
  is reported on once. ± is the standard deviation over folds. The interval (95%) resamples the images of each fold.
  A difference is called better or worse only if that interval and a paired t-test over the folds (5%) say so.
- optimize is `optimize` as it is, but for less finetuning than by default (3 folds, 4 epochs, one rate, 5e-4, for
  time): all weights behind the body, fold by fold on all labelled images (those searched and those that decide),
  AP50 out of fold chooses how far to go and how low the background's score is. label_finetune is its rival in a
  practitioner's form: the same weights, losses, epochs, rate and images, all of them at once, and no metric.
  score_tuning has shifts of class scores alone.
- All others have the same phi: FiLM (d = 128) of the features pooled at each proposal, an affine of class scores
  and one of box corrections. loss_only and loss_dense follow the second stage's losses on training images as they
  were; label_loss and label_ap_loss see the labels of the searched images, and so do metricopt_labels and _ap,
  whose first queries are about the ends of such finetuning. metricopt is the default search without labels,
  metricopt_paper the paper's two stages. "kept" counts folds in which the acceptance test was passed; of
  MetricOpt's searches, which have it built in, values are those of what is returned, of all others those of the
  proposal. "searched" is the gain on the images that chose; of optimize out of fold.
- At scale small the other rows are run, for time, under two conditions: as trained and pixel noise.
- What learns, its rate and the place of FiLM were chosen on training images under another shift (less contrast,
  salt), not on these."""


def table6_text(records: Sequence[Record]) -> str:
    """All tables, one pair for each condition."""
    first = records[0]
    parts = [f"{heading('Table 6', records, of='fold')}, {first['budget']} queries granted"]
    for condition in dict.fromkeys(record["data"] for record in records):
        some = [record for record in records if record["data"] == condition]
        parts += _section(condition, some)
    published = table(["published (VOC 07 test, %)", "07", "07 + 12"], PUBLISHED)
    return "\n\n".join([*parts, "## Published", published, NOTES]) + "\n"


def _section(condition: str, records: list[Record]) -> list[str]:
    searched, accept, test = records[0]["images"]
    methods = [name for name in METHODS if any(record["method"] == name for record in records)]
    rows = [_row(records, name) for name in methods]
    head = ["method", "AP50", "gain", "95% of images", "over frozen", "kept", "queries", "searched", "CPU s"]
    parts = [
        f"## {CONDITIONS[condition]}; {searched} images searched, {accept} decide, about {test} reported on, a fold",
        table(head, rows),
    ]
    duels = [_duel(records, ours, rival) for ours in OURS for rival in methods if rival not in OURS]
    found = [each for each in duels if each is not None]
    if found:
        parts += ["MetricOpt against each, paired:", table(["ours", "against", "gain", "95%", "verdict"], found)]
    return [*parts, _resolved(records), _health(records)]


def _row(records: list[Record], method: str) -> list[str]:
    mine = [returned(record) for record in records if record["method"] == method]
    gain = gain_of(records, method)
    queries = sorted({record["queries"] for record in mine})
    return [
        method,
        spread([record["after"] for record in mine]),
        spread([record["gain"] for record in mine], sign=True),
        _interval(gain),
        "" if method == "frozen" or gain is None else gain.verdict,
        "" if mine[0]["accepted"] is None else f"{sum(record['accepted'] for record in mine)} of {len(mine)}",
        "-".join(map(str, dict.fromkeys((queries[0], queries[-1])))),
        _gain_in_search(mine),
        f"{mean(record['seconds'] for record in mine):.0f}",
    ]


def _gain_in_search(records: list[Record]) -> str:
    found = [record["search"] for record in records if record["search"] is not None]
    return short(mean(after - before for before, after in found), sign=True) if found else ""


def _duel(records: list[Record], ours: str, rival: str) -> list[str] | None:
    gain = gain_of(records, ours, rival)
    if gain is None:
        return None
    return [ours, rival, short(gain.mean, sign=True), _interval(gain), gain.verdict]


def _interval(gain: Gain | None) -> str:
    return "" if gain is None else f"{short(gain.low, sign=True)} to {short(gain.high, sign=True)}"


def _resolved(records: list[Record]) -> str:
    """How large a gain must be to be told from none: half the width of the widest interval here."""
    gains = [gain_of(records, name) for name in METHODS if name != "frozen"]
    widths = [(gain.high - gain.low) / 2 for gain in gains if gain is not None]
    if not widths:
        return ""
    return (
        f"What these images can resolve: half the width of the intervals above is {short(min(widths))} to "
        f"{short(max(widths))} in AP50; gains below that cannot be told from none."
    )


def _health(records: list[Record]) -> str:
    known = {
        name: [r["rank_correlation"] for r in records if r["method"] == name and r["rank_correlation"] is not None]
        for name in METHODS
    }
    told = [f"{name} {spread(values)}" for name, values in known.items() if values]
    return f"Rank correlation of value functions with answers they had not seen: {'; '.join(told)}." if told else ""
