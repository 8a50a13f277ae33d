"""Figure S2 as text: loss and metric at each solution, and where the solutions are."""

from collections.abc import Sequence
from statistics import fmean

from metricopt.experiments.experiment import Record
from metricopt.experiments.markdown import short, spread, table

SOLUTIONS = {
    "ce": "pre-trained",
    "loss_only": "cross-entropy",
    "aucpr": "AUCPR loss",
    "cma_es": "CMA-ES",
    "metricopt_adam": "MetricOpt, guided",
    "metricopt": "MetricOpt, search",
}
"""Names of the solutions in words."""

NOTES = """Train loss is cross-entropy on a fixed subset of training images; 1 - AUCPR (macro, by logits) is of test
images, which only report. The plane goes through three points: the pre-trained network, where phi = 0, the solution of
finetuning on the AUCPR loss, and that of MetricOpt's default search. The other solutions are projected onto it: their
marks in the figure are hollow, and the surfaces below a mark are not the solution's own heights. Both are given here.
"Guided" is the paper's way, a value network and a path led by it (Adam)."""


def figure_s2_text(records: Sequence[Record]) -> str:
    """The heights of solutions over all seeds, then the plane of the first seed."""
    seeds = len({record["seed"] for record in records})
    scale = records[0]["scale"]
    parts = [f"# Figure S2: loss and metric surfaces, AUCPR on CIFAR-10, scale {scale}, {seeds} seed(s)"]
    parts += [records[0]["problem"] + ".", NOTES, "## Solutions, mean ± standard deviation over seeds"]
    parts += [_heights(records), _order(records)]
    surfaces = [record for record in records if "solutions" in record]
    if surfaces:
        parts += [f"## Plane of seed {surfaces[0]['seed']}", _plane(surfaces[0]), _extremes(surfaces[0])]
    return "\n\n".join(parts) + "\n"


def _heights(records: Sequence[Record]) -> str:
    header = ["solution", "train loss", "1 - AUCPR, test", "length of phi", "queries"]
    rows = []
    for method, words in SOLUTIONS.items():
        mine = [record for record in records if record["method"] == method]
        columns = [spread([record[name] for record in mine]) for name in ("train_loss", "test_cost")]
        length = fmean(record["length"] for record in mine) if mine else float("nan")
        queries = str(mine[0]["queries"]) if mine else "—"
        rows.append([words, *columns, f"{length:.1f}", queries])
    return table(header, rows)


def _order(records: Sequence[Record]) -> str:
    """What the figure is to show: that the best solution by loss is not the best by metric."""
    means = {
        name: {
            method: fmean(record[name] for record in records if record["method"] == method)
            for method in dict.fromkeys(r["method"] for r in records if r["method"] in SOLUTIONS)
        }
        for name in ("train_loss", "test_cost")
    }
    by_loss, by_metric = (sorted(found, key=lambda method: found[method]) for found in means.values())
    words = [", ".join(SOLUTIONS[method] for method in order) for order in (by_loss, by_metric)]
    best = by_metric[0].startswith("metricopt")
    claim = "converges to the best metric while still maintaining a low loss"
    verdict = "the best metric is MetricOpt's" if best else f"the best metric is that of: {SOLUTIONS[by_metric[0]]}"
    extra = means["train_loss"][by_metric[0]] - means["train_loss"]["ce"] if "ce" in by_loss else float("nan")
    return (
        f"From low to high train loss: {words[0]}. From low to high 1 - AUCPR: {words[1]}.\n\n"
        f'The paper says that MetricOpt "{claim}". Here {verdict}, at a train loss {short(extra, sign=True)} from that '
        f"of the pre-trained network."
    )


def _plane(surface: Record) -> str:
    header = ["solution", "x", "y", "off the plane", "train loss there", "1 - AUCPR there"]
    rows = [
        [SOLUTIONS[method], *(f"{value:.2f}" for value in (*found["place"], found["off_plane"])),
         short(found["train_loss_on_plane"]), short(found["test_cost_on_plane"])]
        for method, found in surface["solutions"].items()
    ]  # fmt: skip
    return table(header, rows)


def _extremes(surface: Record) -> str:
    lines = []
    for name, words in (("train_loss", "train loss"), ("test_cost", "1 - AUCPR")):
        value, x, y = min(
            (value, x, y)
            for y, row in zip(surface["y"], surface[name], strict=True)
            for x, value in zip(surface["x"], row, strict=True)
        )
        lines.append(f"- the least {words} on the grid is {short(value)}, at ({x:.2f}, {y:.2f})")
    return "\n".join(lines)
