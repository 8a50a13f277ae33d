"""Pages of numbers are what the committed records make, and say of which versions these are."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from metricopt.cli.app import app
from metricopt.core.errors import FileFormatError
from metricopt_lab.cells import Store, experiments, versions
from metricopt_lab.docs import PAGES, write_pages
from metricopt_lab.docs.pages import readme

ROOT = Path(__file__).parents[3]
RESULTS, DOCS = ROOT / "results", ROOT / "docs"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_numbers_is_what_the_committed_records_make(name):
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name](RESULTS, DOCS)


@pytest.mark.parametrize("name", [*experiments(), "quality_development", "quality_final", "speed"])
def test_committed_records_are_sorted_one_a_line(name):
    path = RESULTS / f"{name}.jsonl"
    if not path.exists():
        pytest.skip(f"{name} has no committed records")
    keys = [json.loads(line)["key"] for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
    assert keys == sorted(set(keys)) == list(Store(path))


def test_a_bump_of_the_search_makes_the_page_say_how_many_records_are_stale(monkeypatch):
    monkeypatch.setattr(versions, "RECIPE_VERSION", 99)
    ours = [record for record in Store(RESULTS / "table3.jsonl").values() if record["method"] == "metricopt"]
    was = {record["version"] for record in ours}
    assert f"{len(ours)} of metricopt by version {was.pop()}, now 99" in PAGES["reproduction.md"](RESULTS, DOCS)
    assert not was


def test_the_command_writes_every_page_and_its_pictures(tmp_path):
    for page in (DOCS / "introductions").iterdir():
        target = tmp_path / "introductions" / page.name
        target.parent.mkdir(exist_ok=True)
        target.write_text(page.read_text(encoding="utf-8"))
    result = CliRunner().invoke(app, ["docs", "--results", str(RESULTS), "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert {path.name for path in tmp_path.glob("*.md")} == set(PAGES)
    drawn = {path.name for path in (tmp_path / "images").iterdir()}
    assert {
        "table1.png",
        "figureS2.png",
        "ablation.png",
        "quality_development-gain.svg",
        "quality_development-duels.svg",
    } <= drawn


def test_the_table_of_readme_is_what_the_committed_records_make():
    assert (ROOT / "README.md").read_text(encoding="utf-8") == readme(RESULTS, DOCS)


def test_a_folder_without_records_is_named(tmp_path):
    with pytest.raises(FileFormatError, match=r"table3\.jsonl has no records; expected those of table3"):
        write_pages(tmp_path, DOCS)
