"""Figures (a) and (d): what guidance costs, and what the prefix cache saves."""

from metricopt.adapters import Adapter, FiLM
from metricopt.task.supervised import SupervisedTask
from metricopt_lab.speed.figures import FIGURES, Effort, Figure, Label, ratio
from metricopt_lab.speed.problems import (
    DYNAMIC_BIAS,
    image_task,
    own_loop,
    tabular_task,
    task_loop,
    vectors,
)

_ADAPTERS = (("16 dynamic biases and output affine", DYNAMIC_BIAS), ("FiLM d = 128", FiLM(dim=128)))
_PLACES = (("last stage", "stage3.*", 2.5), ("last block", "stage3.4.*", 6.0))


@FIGURES.add("a")
def guidance(effort: Effort) -> list[Figure]:
    """Guided step / plain optimizer step.

    Example:
        >>> {figure.target for figure in guidance(Effort(repeats=1, quick=True))} == {1.05, 1.15, None}
        True
    """
    return [*_own_loops(effort), _library_loop(effort), _residual_network(effort)]


def _own_loops(effort: Effort) -> list[Figure]:
    figures = []
    for what, adapter in _ADAPTERS:
        # One network and one table for both: copies elsewhere in memory differed by 2%.
        task = _tabular(effort, adapter)
        label = Label(
            "a",
            f"guided / plain step, A9A MLP, batch 256, {what}",
            target=1.15,
            note="the user's own loop: forward, backward, SGD step; no cache",
        )
        with_value, without = (own_loop(task.model, task.train, batch_size=256, guided=g) for g in (True, False))
        figures.append(ratio(label, with_value, without, _often(effort), each=10))
    return figures


def _often(effort: Effort) -> Effort:
    """More rounds for steps of a millisecond, whose ratio is to be known to a hundredth."""
    return Effort(effort.of(10, 1) * effort.repeats, quick=effort.quick)


def _library_loop(effort: Effort) -> Figure:
    task = _tabular(effort, DYNAMIC_BIAS)
    note = "the prefix cache makes the plain step faster too"
    label = Label("a", "guided / plain step, A9A MLP, batch 256, the library's cached loop", note=note)
    return ratio(label, task_loop(task, guided=True), task_loop(task, guided=False), _often(effort), each=10)


def _residual_network(effort: Effort) -> Figure:
    task = image_task(adapter=FiLM(dim=128), rows=effort.of(256, 20), batch_size=effort.of(128, 4))
    label = Label(
        "a", "guided / plain step, ResNet-32, FiLM d = 128, batch 128", target=1.05, note="the user's own loop"
    )
    guided, plain = (own_loop(task.model, task.train, batch_size=task.batch_size, guided=g) for g in (True, False))
    return ratio(label, guided, plain, Effort(max(1, effort.repeats // 2), quick=effort.quick))


@FIGURES.add("d")
def prefix(effort: Effort) -> list[Figure]:
    """Finetuning step and metric query, without / with the prefix cache.

    Example:
        >>> {figure.target for figure in prefix(Effort(repeats=1, quick=True))} == {2.5, 6.0}
        True
    """
    figures = []
    rows, batch = effort.of(256, 20), effort.of(128, 4)
    for where, layers, target in _PLACES:
        adapter = FiLM(dim=128, layers=layers)
        plain, cached = (
            image_task(adapter=adapter, rows=rows, batch_size=batch, cache=memory) for memory in (0, 2**30)
        )
        phi = vectors(2, cached.dim)
        what = f"without / with cache, ResNet-32, FiLM in the {where}: "
        step = Label("d", what + "guided step, batch 128", target=target, sense="at least")
        figures.append(ratio(step, task_loop(plain, guided=True), task_loop(cached, guided=True), effort))
        query = Label("d", what + f"metric query of 2 phi on {rows} images", target=target, sense="at least")
        figures.append(ratio(query, lambda: plain.costs(phi), lambda: cached.costs(phi), effort))  # noqa: B023
    return figures


def _tabular(effort: Effort, adapter: Adapter) -> SupervisedTask:
    return tabular_task(adapter=adapter, train=effort.of(30_000, 300), search=effort.of(4_884, 50))
