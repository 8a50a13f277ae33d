"""The notebook of the demo runs from top to bottom, here with fewer queries and for seconds only."""

import re
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples" / "demo.ipynb"


@pytest.mark.filterwarnings("ignore")  # of Jupyter's own
def test_the_notebook_runs_and_the_model_gets_better(tmp_path):
    nbformat, client = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    settings = next(cell for cell in notebook.cells if cell.source.startswith("queries, effort"))
    settings.source = (
        "from dataclasses import replace\nfrom metricopt.crossfit import EFFORTS\n"
        "queries, effort = 30, replace(EFFORTS['quick'], seconds=4.0)"
    )
    client.NotebookClient(notebook, timeout=200, resources={"metadata": {"path": tmp_path}}).execute()
    said = "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", ()))
    before, after = map(float, re.findall(r"(0\.\d+) -> (0\.\d+) on test rows", said)[0])
    assert after > before and (tmp_path / "report.html").exists()


def test_the_notebook_is_kept_without_outputs():
    nbformat = pytest.importorskip("nbformat")
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    assert not any(cell.get("outputs") for cell in cells)
