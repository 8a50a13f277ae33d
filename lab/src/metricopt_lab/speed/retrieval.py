"""Figure (r): what a retrieval metric takes beside the matrix products it must make, and its memory."""

import subprocess
import sys

import torch
from torch import Tensor

from metricopt.metrics import recall_at_k
from metricopt_lab.speed.figures import FIGURES, Effort, Figure, Label, ratio

POPULATION, ITEMS = 8, 10_000
_BLOCK = 128

_MEMORY = """
import resource, torch
from metricopt.metrics import recall_at_k
rows, dim, queries = {rows}, {dim}, {queries}
embeddings = torch.randn(rows, dim, generator=torch.Generator().manual_seed(0))
roles = torch.zeros(rows, dtype=torch.long)
roles[:queries] = 2
recall_at_k(separate=True).value(embeddings, torch.arange(rows) // 4, roles)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
"""


@FIGURES.add("r")
def of_retrieval(effort: Effort) -> list[Figure]:
    """One query of a population, beside its products, and the memory of a large gallery.

    Example:
        >>> [figure.target for figure in of_retrieval(Effort(repeats=1, quick=True))]
        [1.2, 2.0]
    """
    return [_beside_products(effort, 64), _memory(effort)]


def _beside_products(effort: Effort, dim: int) -> Figure:
    population, items = effort.of((POPULATION, ITEMS), (2, 200))
    draw = torch.Generator().manual_seed(0)
    embeddings = torch.nn.functional.normalize(torch.randn(population, items, dim, generator=draw), dim=2)
    targets, metric = torch.arange(items) // 20, recall_at_k(1)
    what = f"recall@1 / its products: population of {population}, {items:,} embeddings of {dim}"
    note = f"products in blocks of {_BLOCK} queries, into memory that is there"
    label = Label("r", what, 1.2, note=note)
    return ratio(label, lambda: metric.values(embeddings, targets), lambda: _products(embeddings), effort)


def _products(embeddings: Tensor) -> None:
    room = torch.empty(_BLOCK, embeddings.shape[1])
    for member in embeddings:
        for queries in member.split(_BLOCK):
            torch.mm(queries, member.T, out=room[: len(queries)])


def _memory(effort: Effort) -> Figure:
    """Largest memory of a process that asks about a large gallery once: the interpreter and torch are part of it."""
    rows, dim, queries = effort.of((60_000, 512, 2_000), (500, 8, 100))
    code = _MEMORY.format(rows=rows, dim=dim, queries=queries)
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    size = float(said.split()[-1])
    what = f"GiB of memory: recall@1 of {queries:,} queries in a gallery of {rows:,} embeddings of {dim}"
    note = "largest of a process, torch's own and the embeddings among it; more queries take no more"
    return Figure("r", what, size, size, size, 1, 2.0, note=note)
