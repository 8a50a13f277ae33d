"""The one framework of everything measured here: cells, what is asked of them, a store of records, and workers.

An experiment lists cells. A cell is computed by a function, in a worker process, and its record is kept as a line of
one file; what was interrupted goes on. Tables, figures, studies and `bench quality` are such experiments; `bench speed`
has a clock of its own and the same store.

Example:
    >>> from metricopt_lab.cells import experiments
    >>> "table3" in experiments()
    True
"""

from metricopt_lab.cells.cell import Cell, ScaledCell
from metricopt_lab.cells.discovery import experiments
from metricopt_lab.cells.experiment import Experiment, Record
from metricopt_lab.cells.runner import Run, run
from metricopt_lab.cells.scaled import EXPERIMENTS, ScaledExperiment
from metricopt_lab.cells.settings import Settings, chosen
from metricopt_lab.cells.store import Store

__all__ = [
    "EXPERIMENTS",
    "Cell",
    "Experiment",
    "Record",
    "Run",
    "ScaledCell",
    "ScaledExperiment",
    "Settings",
    "Store",
    "chosen",
    "experiments",
    "run",
]
