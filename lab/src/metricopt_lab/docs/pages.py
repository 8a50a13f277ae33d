"""Every page of numbers, made from records under results/ and introductions under docs/introductions/."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from metricopt.core.errors import FileFormatError
from metricopt.core.writing import write_text
from metricopt_lab.cells import Experiment, Record, Settings, Store, experiments
from metricopt_lab.cells.runner import rendered
from metricopt_lab.optimizers.text import weights_table
from metricopt_lab.problems.zoo import Half
from metricopt_lab.quality import Quality
from metricopt_lab.quality import Settings as QualitySettings
from metricopt_lab.quality.readme import readme_part, with_part
from metricopt_lab.speed import page as speed_page

HALVES: tuple[Half, ...] = ("final", "development")
"""Of the quality benchmark, in the order of its page; one that was not measured is left out."""

Page = Callable[[Path, Path], str]
"""Text of a page, given the folders of the records and of the docs."""


def reproduction(results: Path, docs: Path) -> str:
    """The paper's Table 3."""
    return _page(docs, "reproduction", [_recorded("table3", results)])


def cifar10(results: Path, docs: Path) -> str:
    """CIFAR-10: each experiment's picture above its text, and at the end the paces of the paper's rivals."""
    names = ["table1", "table2", "figure3", "figure4", "figureS4", "figureS2"]
    names += ["rival-paces"] if (results / "rival-paces.jsonl").exists() else []
    return _page(docs, "cifar10", [_recorded(name, results) for name in names], pictures=True)


def paper_recipe(results: Path, docs: Path) -> str:
    """What it takes for the paper's recipe to work."""
    names = ["paper-recipe", *(["paper-rates"] if (results / "paper-rates.jsonl").exists() else [])]
    return _page(docs, "paper_recipe", [_recorded(name, results) for name in names], pictures=True)


def detection(results: Path, docs: Path) -> str:
    """The paper's Table 6 and, where it was measured, Figure S3."""
    names = ["table6", *(["figureS3"] if (results / "figureS3.jsonl").exists() else [])]
    return _page(docs, "detection", [_recorded(name, results) for name in names], pictures=True)


def learned(results: Path, docs: Path) -> str:
    """Learned optimizers: how to use them, what was tried, and the weights that come with the package."""
    names = [name for name in ("learned-attempts", "tableS1") if (results / f"{name}.jsonl").exists()]
    page = _page(docs, "learned", [_recorded(name, results) for name in names])
    return f"{page}\n## Weights\n\n{weights_table()}\n"


def retrieval(results: Path, docs: Path) -> str:
    """The paper's Table 5, with queries whose answers changed."""
    return _page(docs, "retrieval", [_recorded("table5", results)], pictures=True)


def transfer(results: Path, docs: Path) -> str:
    """What carries over: the pairs of searches and, where they were measured, the shelf and the paper's Table 4."""
    names = [name for name in ("transfer", "shelf", "table4") if (results / f"{name}.jsonl").exists()]
    return _page(docs, "transfer", [_recorded(name, results) for name in names], pictures=True)


def recipe(results: Path, docs: Path) -> str:
    """The recipe for either way and what each part of it gains."""
    names = [*(["weights-ablation"] if (results / "weights-ablation.jsonl").exists() else []), "ablation"]
    return _page(docs, "recipe", [_recorded(name, results) for name in names])


def quality(results: Path, docs: Path) -> str:
    """`optimize` against its rivals, the half that was measured once above the other."""
    names = [f"quality_{half}" for half in HALVES if (results / f"quality_{half}.jsonl").exists()]
    return _page(docs, "quality", [_recorded(name, results) for name in names], pictures=True)


def performance(results: Path, docs: Path) -> str:  # noqa: ARG001
    """Speed."""
    return speed_page(list(_store("speed", results).values()))


PAGES: dict[str, Page] = {
    page.__name__ + ".md": page
    for page in (
        reproduction,
        paper_recipe,
        cifar10,
        retrieval,
        detection,
        learned,
        transfer,
        recipe,
        quality,
        performance,
    )
}
"""What makes each page, by its file."""


def readme(results: Path, docs: Path) -> str:
    """README beside the folder of the docs, its table of quality made anew; of the final half once that is measured."""
    text = (docs.parent / "README.md").read_text(encoding="utf-8")
    for half in HALVES:
        if (results / f"quality_{half}.jsonl").exists():
            return with_part(text, readme_part(_recorded(f"quality_{half}", results)[1], half))
    return text


def write_pages(results: Path, docs: Path) -> list[Path]:
    """Write all pages, the table of README if there is one, and the pictures of the experiments to `images/`."""
    written = []
    for name, page in PAGES.items():
        write_text(docs / name, page(results, docs))
        written.append(docs / name)
    if (docs.parent / "README.md").exists():
        write_text(docs.parent / "README.md", readme(results, docs))
    (docs / "images").mkdir(exist_ok=True)
    for name in (*experiments(), *(f"quality_{half}" for half in HALVES)):
        if (results / f"{name}.jsonl").exists():
            experiment, records = _recorded(name, results)
            experiment.draw(records, docs / "images")
    return written


def _store(name: str, results: Path) -> Store:
    store = Store(results / f"{name}.jsonl")
    if not store:
        raise FileFormatError(f"{store.path} has no records; expected those of {name}: name their folder by --results")
    return store


def _recorded(name: str, results: Path) -> tuple[Experiment[Any, Any], list[Record]]:
    """An experiment with the settings that its records tell of, and these in its order."""
    store = _store(name, results)
    if name.startswith("quality_"):
        experiment = Quality(QualitySettings("final" if name == "quality_final" else "development"))
        return experiment, experiment.shown(store)
    kind = experiments()[name]
    scale = max((record["scale"] for record in store.values()), key=kind.scales.index)
    records = [record for record in store.values() if record["scale"] == scale]
    seeds = 1 + max(record["seed"] for record in records)
    measured = dict.fromkeys(record["data"] for record in records)
    experiment = kind(Settings(seeds, scale))
    if experiment.known_data():
        experiment = kind(Settings(seeds, scale, tuple(measured)))
    return experiment, experiment.shown(store)


def _page(
    docs: Path, name: str, parts: Sequence[tuple[Experiment[Any, Any], list[Record]]], *, pictures: bool = False
) -> str:
    """An introduction, written by hand, and texts, one level of heading deeper."""
    page = (docs / "introductions" / f"{name}.md").read_text(encoding="utf-8")
    for experiment, records in parts:
        text = rendered(experiment, records).replace("\n#", "\n##").replace("# ", "## ", 1)
        heading, _, rest = text.partition("\n")
        drawn = "".join(f"\n![{Path(name).stem}](images/{name})\n" for name in experiment.pictures) if pictures else ""
        page += f"\n{heading}\n{drawn}{rest}"
    return page
