"""What README shows of the records: one table, between two marks."""

from collections.abc import Sequence
from statistics import fmean

from metricopt_lab.cells import Record
from metricopt_lab.markdown import table
from metricopt_lab.problems.zoo import Half
from metricopt_lab.quality.gains import normalised, seen, told
from metricopt_lab.quality.methods import OUR_VERSION
from metricopt_lab.quality.recipes import widest
from metricopt_lab.quality.tables import ordered

BEGIN, END = "<!-- quality: begin -->", "<!-- quality: end -->"

_ABOUT: dict[Half, str] = {
    "final": "the half of the problems that was measured once, after everything was decided",
    "development": "the half of the problems that was looked at while the method was made",
}


def readme_part(records: Sequence[Record], half: Half) -> str:
    """Shares of the best gain by method and budget, with processor seconds; labels visible, then hidden."""
    parts, records = [], widest(records)
    for visible, title in ((True, "Labels of the validation rows visible"), (False, "Labels hidden")):
        some = _alike(seen(records, labels_visible=visible))
        if some:
            problems = len({record["problem"] for record in some})
            seeds = len({record["seed"] for record in some})
            former = any(record["method"] == "metricopt" and record["version"] < OUR_VERSION for record in some)
            about = f"{_ABOUT[half]}, with the recipe before the present one" if former and visible else _ABOUT[half]
            parts += [f"**{title}** ({problems} problems, {seeds} seeds; {about}):", gain_and_seconds(some)]
    return "\n\n".join(parts)


def _alike(records: Sequence[Record]) -> list[Record]:
    """Those of problems that ours was measured on with all seeds and budgets: means of others are of something else."""
    measured: dict[str, set[tuple[int, int]]] = {}
    for record in records:
        if record["method"] == "metricopt":
            measured.setdefault(record["problem"], set()).add((record["seed"], record["queries"]))
    most = max(map(len, measured.values()), default=0)
    return [record for record in records if len(measured.get(record["problem"], ())) == most]


def gain_and_seconds(records: Sequence[Record]) -> str:
    """One line a method that was measured on all of the problems; nothing at budgets where it was not."""
    found, budgets = normalised(records), sorted({record["queries"] for record in records})
    full = max(len(each) for each in found.values())
    lines = []
    for method in ordered(records):
        whole = {queries for queries in budgets if len(found.get((method, queries), ())) == full}
        if whole:
            seconds = fmean(record["cpu_seconds"] for record in records if record["method"] == method)
            means = [told(found, method, queries) if queries in whole else "" for queries in budgets]
            lines.append([method, *means, f"{seconds:.1f}"])
    return table(["share of the best gain at", *(f"{queries:,} calls" for queries in budgets), "CPU s"], lines)


def with_part(readme: str, part: str) -> str:
    """The text of README with what is between the marks replaced; as it is, if it has no marks.

    Example:
        >>> with_part(f"a {BEGIN}old{END} b", "new")
        'a <!-- quality: begin -->\\nnew\\n<!-- quality: end --> b'
        >>> with_part("a b", "new")
        'a b'
    """
    before, mark, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    return f"{before}{BEGIN}\n{part}\n{END}{after}" if mark and end else readme
