"""Figure S3 as text: how much of the true boxes the proposals reach, before and after."""

from collections.abc import Sequence
from statistics import mean

from metricopt_lab.cells import Record
from metricopt_lab.markdown import heading, short, spread, table

NAMES = {
    "optimize": "`optimize`: weights behind the body",
    "metricopt_pyramid": "FiLM of the pyramid's outputs, by AP50 alone",
}

NOTES = """\
Notes
- Recall of the 150 proposals that the second stage is given, on test images that nothing was chosen on; a true box is
  reached if a proposal overlaps it by the IoU above the column. Of what the search proposed, be it accepted or not.
- Where phi acts on pooled features (Table 6's adapter rows) proposals are those of the original, by construction.
- Pictures: true boxes white, the 30 best proposals thin, detections of score .5 and more thick."""


def figure_s3_text(records: Sequence[Record]) -> str:
    """One table for each condition, and what it says."""
    parts = [heading("Figure S3", records, of="fold")]
    for condition in dict.fromkeys(record["data"] for record in records):
        some = [record for record in records if record["data"] == condition]
        parts += [f"## {condition.replace('_', ' ')}", _table(some), _answer(some)]
    return "\n\n".join([*parts, NOTES]) + "\n"


def _table(records: list[Record]) -> str:
    head = ["", *(f"recall at {overlap:g}" for overlap in records[0]["overlaps"]), "AP50", "queries", "CPU s"]
    rows = [["frozen", *_columns(records[:1] if len(records) == 1 else _one_way(records), 0), "0", "0"]]
    for way in dict.fromkeys(record["method"] for record in records):
        mine = [record for record in records if record["method"] == way]
        spent = [str(max(record["queries"] for record in mine)), f"{mean(record['seconds'] for record in mine):.0f}"]
        rows.append([NAMES[way], *_columns(mine, 1), *spent])
    return table(head, rows)


def _one_way(records: list[Record]) -> list[Record]:
    """The original is the same in every way: each fold once."""
    return list({record["seed"]: record for record in records}.values())


def _columns(records: list[Record], which: int) -> list[str]:
    recalls = zip(*(record["recall"][which] for record in records), strict=True)
    return [*(spread(list(column)) for column in recalls), spread([record["ap50"][which] for record in records])]


def _answer(records: list[Record]) -> str:
    """Whether the first stage is another, in one sentence a way."""
    said = []
    for way in dict.fromkeys(record["method"] for record in records):
        mine = [record for record in records if record["method"] == way]
        gains = [mean(r["recall"][1][k] - r["recall"][0][k] for r in mine) for k in range(len(mine[0]["overlaps"]))]
        largest = max(range(len(gains)), key=lambda k: abs(gains[k]))
        said.append(
            f"{NAMES[way]}: recall of proposals changes by {short(gains[0], sign=True)} at an overlap of .5 and most, "
            f"by {short(gains[largest], sign=True)}, at {mine[0]['overlaps'][largest]:g}."
        )
    return " ".join(["Does it change the first stage?", *said])
