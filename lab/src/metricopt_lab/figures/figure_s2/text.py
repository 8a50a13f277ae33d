"""Figure S2 as text: loss and metric at each solution, and where the solutions are."""

from collections.abc import Sequence
from statistics import fmean

from metricopt_lab.cells import Record
from metricopt_lab.markdown import heading, short, spread, table
from metricopt_lab.statistics.paired import paired

SOLUTIONS = {
    "ce": "pre-trained",
    "loss_only": "cross-entropy",
    "aucpr": "AUCPR loss",
    "cma_es": "CMA-ES",
    "metricopt_adam": "MetricOpt, guided",
    "metricopt": "MetricOpt, search",
    "metricopt_advanced": "MetricOpt, search + AUCPR loss",
}
"""Names of the solutions in words."""

NOTES = """Train loss is cross-entropy on a fixed subset of training images; 1 - AUCPR (macro, by logits) is of test
images, which only report. The plane goes through three points: the pre-trained network, where phi = 0, the solution of
finetuning on the AUCPR loss, and that of MetricOpt's default search. The other solutions are projected onto it: their
marks in the figure are hollow, and the surfaces below a mark are not the solution's own heights. Both are given here.
"Guided" is the paper's way, a value network and a path led by it (Adam); the search is this package's own. Both follow
cross-entropy, which is blind to this metric, unless the AUCPR loss is named. That loss is made for the metric and has
the labels of all training images, without a query.

Seeds change the adapter, the split of the validation images, which training images are used, and all paths. Network
and test images are the same for all, so spreads and tests say nothing about other networks or other test images."""


def figure_s2_text(records: Sequence[Record]) -> str:
    """The heights of solutions over all seeds, then the plane of the first seed."""
    parts = [heading("Figure S2: loss and metric surfaces, AUCPR on CIFAR-10", records)]
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
    """Solutions by loss and by metric, and whether the best is MetricOpt's, as the paper says of its own."""
    found = [method for method in SOLUTIONS if any(record["method"] == method for record in records)]
    loss, cost = (
        {method: fmean(record[name] for record in records if record["method"] == method) for method in found}
        for name in ("train_loss", "test_cost")
    )
    lines = [
        f"From low to high {words}: {'; '.join(SOLUTIONS[method] for method in sorted(found, key=means.__getitem__))}."
        for words, means in (("train loss", loss), ("1 - AUCPR", cost))
    ]
    groups = [[method for method in found if method.startswith("metricopt") is ours] for ours in (True, False)]
    if all(groups):
        best = [min(group, key=cost.__getitem__) for group in groups]
        ours, rival = (f"{SOLUTIONS[m]}, {short(cost[m])} at train loss {short(loss[m])}" for m in best)
        by_seed = [{r["seed"]: r["test_cost"] for r in records if r["method"] == method} for method in best]
        verdict = {"win": "confirmed", "tie": "a tie", "loss": "not confirmed"}[paired(*by_seed).verdict]
        lines.append(
            'The paper: MetricOpt converges "to the best performance metric while still maintaining a low loss". '
            f"The best metric of ours: {ours}; of the others: {rival}. Best metric, by a one-sided paired t-test over "
            f"seeds (p < .05): {verdict}."
        )
    return "\n\n".join(lines)


def _plane(surface: Record) -> str:
    header = ["solution", "x", "y", "off the plane", "train loss there", "1 - AUCPR there"]
    rows = [
        [SOLUTIONS[method], *(f"{value + 0.0:.2f}" for value in (*found["place"], found["off_plane"])),
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
