"""Every block of Python in README and on the site's pages runs, each page from top to bottom."""

import json
import re
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.page_worlds import WORLDS, few_iterations
from torch import nn

import metricopt as mo
from metricopt.acceptance import gathering
from metricopt.core.errors import MetricOptWarning
from metricopt.crossfit import EFFORTS

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```py(?:thon)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if page.parent.name != "introductions" and BLOCK.search(page.read_text(encoding="utf-8"))
]


def given() -> dict[str, object]:
    """What pages take for granted: a network that was trained somewhere else, and data of three kinds."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(1200, 4, generator=draw)
    y = (x[:, 0] + 0.5 * torch.randn(1200, generator=draw) > 0.8).long()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))

    def bce(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return nn.functional.binary_cross_entropy_with_logits(outputs[:, 0], targets.float())

    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(30):
        optimizer.zero_grad()
        bce(net(x[:400] + 0.5), y[:400]).backward()
        optimizer.step()
    parts = {"X": x[:400], "y": y[:400], "X_val": x[400:800], "y_val": y[400:800], "X_test": x[800:], "y_test": y[800:]}
    return {"net": net, "bce": bce, **parts}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore:.*config.*")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_blocks_of_a_page_run_one_after_the_other(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, settings in EFFORTS.items():  # as ever, but not for minutes
        monkeypatch.setitem(EFFORTS, name, replace(settings, seconds=2.0))
    monkeypatch.setattr(gathering, "RESAMPLES", 100)
    monkeypatch.setattr(mo, "MetaTraining", few_iterations)
    world = WORLDS.get(page.relative_to(ROOT).as_posix(), lambda _: {})
    names = {"__name__": "page", **given(), **world(tmp_path)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MetricOptWarning)  # small data are told of
        for block in BLOCK.findall(page.read_text(encoding="utf-8")):
            exec(compile(block, str(page), "exec"), names)


def test_the_pages_that_a_user_reads_have_blocks():
    names = {page.name for page in PAGES}
    assert {"README.md", "index.md", "tutorial.md", "metric.md", "workers.md", "study.md", "resume.md"} <= names


def test_the_first_page_quotes_the_demo_as_it_was_measured():
    run = json.loads((ROOT / "results" / "demo.jsonl").read_text().splitlines()[0])
    page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    quoted = re.findall(r"(?<=[ *])\.\d{3}(?=[ *])", page)
    acts = [run, run["second_act"]]
    measured = [[act["before"], act["threshold_tuning"]["after"], act["after"]] for act in acts]
    assert quoted == [f"{value:.3f}"[1:] for act in measured for value in act]


def test_the_page_of_workers_quotes_what_was_measured():
    records = [json.loads(line) for line in (ROOT / "results" / "workers.jsonl").read_text().splitlines()]
    page = (ROOT / "docs" / "how-to" / "workers.md").read_text(encoding="utf-8")
    assert [record["workers"] for record in records] == ["forked", "executor", "ray"]
    assert [f"{record['ratio']:.2f}" for record in records] == re.findall(r"\b1\.\d\d\b", page)
