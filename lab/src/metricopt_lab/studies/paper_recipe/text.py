"""The study of the paper's recipe as text."""

from collections.abc import Sequence
from statistics import mean

from metricopt_lab.cells import Record
from metricopt_lab.markdown import heading, short, spread, table

TELLS, MARGIN = 0.5, 0.005
"""From where a rank correlation counts as learnt, and by how much a gain has to be above the untrained control's."""

WORDS = {
    "letter": "to the letter: BatchNorm over one trajectory, raw phi and targets",
    "standardised": "phi and targets standardised, BatchNorm",
    "no-norm": "no BatchNorm, raw phi and targets",
    "both": "both deviations (preset paper)",
    "untrained": "control: the same network, untrained",
}

SHORT = {
    "letter": "to the letter it",
    "standardised": "with standardised phi and targets alone it",
    "no-norm": "without BatchNorm alone it",
    "both": "with both it",
}

NOTES = """\
Notes
- The paper's two stages, with its adapter alone (16 dynamic biases for tables, FiLM of d = 128 for images), T = 50 and
  K = 3 or T = 200 and K = 10, Reptile one task at a time (inner rate .005, meta rate 1 to 0; fewer than 500 tasks are
  gone through again until there were 500 meta-updates), gamma 10, P = k = 3, s^2 = .01, Eq. 4 in place of the gradient.
  All variants learn from the same trajectories. A fifth of them is withheld: the rank correlation is with the
  observations there.
- Both rates are found, not set: SGD's such that the steps of a path, each as long as the first, lead as far as the
  first phi of a task is from 0; the guided one by four paths from phi = 0, the first of that reach, each further one
  longer by a factor of 3.2 as long as longer is better, shorter otherwise or while none is better than the original
  (.03 to 32 times), then between; one query each and one about the original, in the number of queries.
- A gain is on test rows that nothing was chosen on, of the path with the best answer, whether it is above the original
  or not; an untrained value function has the same choice of four, so what it gains is the choice's."""


def recipe_text(records: Sequence[Record]) -> str:
    """Tables by data set, then one plain statement for each.

    Example:
        >>> record = dict(scale="small", data="a9a", seed=0, metric="mcr", variant="both", tasks=64, queries=197,
        ...               rank_correlation=0.8, gain=0.04, before=0.2)
        >>> text = recipe_text([record, {**record, "variant": "untrained", "rank_correlation": 0.0, "gain": 0.0}])
        >>> "with both it works from 64 tasks (197 queries) on" in text
        True
    """
    parts = [heading("The paper's recipe by its number of tasks", records)]
    for data in dict.fromkeys(record["data"] for record in records):
        some = [record for record in records if record["data"] == data]
        before = mean(record["before"] for record in some)
        parts += [f"## {data}, {some[0]['metric']}, before {short(before)}", _table(some), _statement(data, some)]
    return "\n\n".join([*parts, NOTES]) + "\n"


def _table(records: Sequence[Record]) -> str:
    numbers = sorted({record["tasks"] for record in records})
    rows = []
    for variant in dict.fromkeys(record["variant"] for record in records):
        cells = []
        for tasks in numbers:
            found = _of(records, variant, tasks)
            cells += [spread([record["rank_correlation"] for record in found], sign=True),
                      spread([record["gain"] for record in found], sign=True)]  # fmt: skip
        rows.append([WORDS[variant], *cells])
    header = [f"{tasks:,} tasks: {what}" for tasks in numbers for what in ("rank correlation", "gain")]
    return table(["value function", *header], rows)


def _statement(data: str, records: Sequence[Record]) -> str:
    """What each way to train tells of the metric, and whether it gains more than the control, in words."""
    said = [f"{SHORT[name]} {_outcome(records, name)}" for name in SHORT if any(r["variant"] == name for r in records)]
    return f"**{data}**: {'; '.join(said)}."


def _outcome(records: Sequence[Record], variant: str) -> str:
    known = {r["tasks"]: mean(one["rank_correlation"] for one in _of(records, variant, r["tasks"]))
             for r in records if r["variant"] == variant}  # fmt: skip
    works = [tasks for tasks in sorted(known) if all(_works(records, variant, more) for more in known if more >= tasks)]
    if works:
        queries = _of(records, variant, works[0])[0]["queries"]
        return f"works from {works[0]:,} tasks ({queries:,} queries) on"
    learns = [tasks for tasks in sorted(known) if known[tasks] >= TELLS]
    if learns:
        return f"learns the metric from {learns[0]:,} tasks on, but gains no more than an untrained value function"
    return f"does not learn it (rank correlation at most {short(max(known.values()), sign=True)})"


def _works(records: Sequence[Record], variant: str, tasks: int) -> bool:
    mine, control = _of(records, variant, tasks), _of(records, "untrained", tasks)
    if not mine or not control:
        return False
    ahead = mean(r["gain"] for r in mine) - mean(r["gain"] for r in control)
    return mean(r["rank_correlation"] for r in mine) >= TELLS and ahead > MARGIN


def _of(records: Sequence[Record], variant: str, tasks: int) -> list[Record]:
    return [record for record in records if (record["variant"], record["tasks"]) == (variant, tasks)]
