"""Figure (e): how time and memory grow with the sizes of a problem."""

from collections.abc import Callable
from functools import partial

import numpy as np

from metricopt.adapters import FiLM
from metricopt.core.seeding import stream
from metricopt.metrics import aucpr, f_beta
from metricopt.paper.equation_4_direction import guided_direction
from metricopt.paper.interpolate import interpolate
from metricopt_lab.speed.figures import FIGURES, Effort, Figure, Label, ratio
from metricopt_lab.speed.meta_training import observed_paths
from metricopt_lab.speed.problems import own_loop, tabular_task, task_loop, value_network, vectors
from metricopt_lab.speed.timing import exponent, interleaved, peak_memory, quartiles


@FIGURES.add("e")
def growth(effort: Effort) -> list[Figure]:
    """Exponents of time and peak memory in d, T, population and validation rows.

    Example:
        >>> figures = growth(Effort(repeats=1, quick=True))
        >>> sum("MiB" in figure.what for figure in figures), sum("exponent" in figure.what for figure in figures)
        (3, 6)
    """
    dims = effort.of((16, 64, 256, 1024, 4096), (2, 4))
    return [*_with_dim(effort, dims), *_of_time(effort), *_of_memory(effort)]


def _with_dim(effort: Effort, dims: tuple[int, ...]) -> list[Figure]:
    figures = []
    for dim in dims:
        tasks = [
            tabular_task(adapter=FiLM(dim=dim), train=effort.of(30_000, 300), search=effort.of(100, 20))
            for _ in range(2)
        ]
        guided, plain = (own_loop(t.model, t.train, batch_size=256, guided=t is tasks[0]) for t in tasks)
        label = Label("e", f"guided / plain step, A9A MLP, batch 256, FiLM d = {dim}", target=1.5)
        figures.append(ratio(label, guided, plain, effort, each=5))
    return figures


def _of_time(effort: Effort) -> list[Figure]:
    small = effort.quick
    dims, populations = ((2, 4), (1, 2)) if small else ((16, 64, 256, 1024, 4096), (16, 64, 256, 1024))
    lengths, rows = ((20, 40), (50, 100)) if small else ((100, 200, 400, 800, 1600, 3200), (10**4, 10**5, 10**6))
    task = tabular_task(batch_size=32, train=effort.of(30_000, 100), search=20)
    cases: list[tuple[str, tuple[int, ...], Callable[[int], Callable[[], object]], float | None]] = [
        ("guided direction of one phi, in d", dims, partial(_direction, 1), None),
        ("guided direction, d = 16, in the population", populations, lambda size: _direction(size, 16), 1.0),
        (
            "guided step, batch 32, in the population",
            populations,
            lambda p: task_loop(task, guided=True, population=p),
            1.0,
        ),
        ("interpolation of 64 tasks, K = 10, in T", lengths, lambda steps: _interpolation(effort, steps), 1.0),
        ("F1 query of 4 phi, in validation rows", rows, partial(_query, "f1"), 1.0),
        ("AUCPR query of 4 phi, in validation rows", rows, partial(_query, "aucpr"), 1.0),
    ]
    return [_exponent(effort, *case) for case in cases]


def _exponent(
    effort: Effort,
    what: str,
    sizes: tuple[int, ...],
    work: Callable[[int], Callable[[], object]],
    target: float | None,
) -> Figure:
    rounds = max(1, effort.repeats // 3)
    taken = interleaved({str(size): work(size) for size in sizes}, rounds=rounds, warm_up=1)
    each = [exponent(list(sizes), [taken[str(size)][r] for size in sizes]) for r in range(rounds)]
    seconds = ", ".join(f"{size:,}: {1e3 * float(np.median(taken[str(size)])):.3g} ms" for size in sizes)
    # A tenth above linear is what timing at three sizes can tell.
    return Figure(
        "e", f"exponent of time: {what}", *quartiles(np.array(each)), rounds, target and target + 0.1, note=seconds
    )


def _of_memory(effort: Effort) -> list[Figure]:
    rows, population, dim = effort.of((1_000_000, 1024, 4096), (100, 2, 4))
    task = tabular_task(batch_size=32, train=effort.of(30_000, 100), search=20)
    work = {
        f"F1 query of 4 phi on {rows:,} rows, cache included": _query("f1", rows, fresh=True),
        f"guided step of {population:,} tasks, batch 32": task_loop(task, guided=True, population=population),
        f"guided direction, d = {dim:,}": _direction(1, dim),
    }
    figures = []
    for what, call in work.items():
        peak = peak_memory(call)
        figures.append(Figure("e", f"peak memory, MiB: {what}", peak, peak, peak, 1))
    return figures


def _direction(population: int, dim: int) -> Callable[[], object]:
    value, phi, draw = value_network(dim), vectors(population, dim), stream(0, "direction")
    past = vectors(population * 3, dim).view(population, 3, dim)
    return lambda: guided_direction(value, phi, past, generator=draw)


def _interpolation(effort: Effort, steps: int) -> Callable[[], object]:
    return partial(interpolate, observed_paths(effort.of(64, 2), steps, 10))


def _query(metric: str, rows: int, *, fresh: bool = False) -> Callable[[], object]:
    task = tabular_task(train=100, search=rows, metric=f_beta() if metric == "f1" else aucpr())
    phi = vectors(4, task.dim)
    if not fresh:
        task.costs(phi[:1])
    return lambda: task.costs(phi)
