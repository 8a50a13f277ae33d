"""Make the pages under docs/ that show records under results/: `python tools/make_docs.py`.

A page is its introduction here and the tables that the command named in it wrote; a test compares the two.
"""

import json
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def reproduction() -> str:
    """The page on the paper's Table 3."""
    return _page("reproduction", ROOT / "results/table3/table.md")


def quality() -> str:
    """The page on metricopt against its rivals."""
    return _page("quality", ROOT / "results/quality/summary.md")


def recipe() -> str:
    """The page on the default search and what each part of it gains."""
    return _page("recipe", ROOT / "results/ablation/table.md")


def cifar10() -> str:
    """The page on CIFAR-10: each experiment's picture above its text."""
    page = (ROOT / "docs/introductions/cifar10.md").read_text()
    names = ("table1", "table2", "figure3", "figure4", "figureS4", "figureS2")
    for name in (each for each in names if (ROOT / f"results/{each}/table.md").exists()):
        text = (ROOT / f"results/{name}/table.md").read_text().replace("\n#", "\n##").replace("# ", "## ", 1)
        heading, _, rest = text.partition("\n")
        page += f"\n{heading}\n\n![{name}](../results/{name}/{name}.png)\n{rest}"
    return page


PAGES = {
    "docs/reproduction.md": reproduction,
    "docs/quality.md": quality,
    "docs/recipe.md": recipe,
    "docs/cifar10.md": cifar10,
}


def _page(name: str, tables: Path) -> str:
    """An introduction, written by hand, and tables, one level of heading deeper."""
    introduction = (ROOT / f"docs/introductions/{name}.md").read_text()
    return introduction + "\n" + tables.read_text().replace("\n#", "\n##").replace("# ", "## ", 1)


def plot_ablation(path: Path) -> None:
    """Gains of the default search without one of its parts, and prediction error against gain of value networks."""
    from matplotlib.figure import Figure

    records = json.loads((ROOT / "results/ablation/records.json").read_text())
    searches = [r for r in records if r["metric"] == "search"]
    networks = [r for r in records if r["metric"] == "network"]
    problems = list(dict.fromkeys(r["data"] for r in searches))
    figure = Figure(figsize=(11, 6.6), layout="constrained")
    upper, lower = figure.subfigures(2, 1)  # rows of their own: of different numbers of plots
    for place, problem in enumerate(problems):
        _bars(upper.add_subplot(1, len(problems), place + 1), [r for r in searches if r["data"] == problem], problem)
    for place, problem in enumerate(dict.fromkeys(r["data"] for r in networks)):
        _dots(lower.add_subplot(1, 2, 1 + place), [r for r in networks if r["data"] == problem], problem)
    figure.savefig(path, dpi=110)


def _bars(axes: Any, records: list[dict[str, Any]], title: str) -> None:
    variants = list(dict.fromkeys(r["method"] for r in records))
    gains = [[100 * r["gain"] for r in records if r["method"] == variant] for variant in variants]
    errors = [stdev(some) / len(some) ** 0.5 if len(some) > 1 else 0.0 for some in gains]
    colours = ["#c1121f" if variant == "default" else "#9a9a9a" for variant in variants]
    axes.barh(variants, [fmean(some) for some in gains], xerr=errors, color=colours, ecolor="#333333")
    axes.invert_yaxis()
    axes.set_title(title, fontsize=9)
    axes.set_xlabel("gain on test data, points ± s.e.", fontsize=8)
    axes.tick_params(labelsize=8)


def _dots(axes: Any, records: list[dict[str, Any]], title: str) -> None:
    for variant in dict.fromkeys(r["method"] for r in records):
        some = [r for r in records if r["method"] == variant]
        gains, errors = [100 * r["gain"] for r in some], [r["prediction_error"] for r in some]
        axes.plot(errors, gains, "o", label=variant, markersize=6)
    axes.axhline(0, color="#9a9a9a", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_title(f"value networks on {title}", fontsize=9)
    axes.set_xlabel("prediction error on unseen observations", fontsize=8)
    axes.set_ylabel("gain on test data, points", fontsize=8)
    axes.legend(fontsize=7, frameon=False)
    axes.tick_params(labelsize=8)


def main() -> None:
    """Write every page and its pictures."""
    for path, page in PAGES.items():
        (ROOT / path).write_text(page())
        print(path)
    plot_ablation(ROOT / "docs/images/ablation.png")


if __name__ == "__main__":
    main()
