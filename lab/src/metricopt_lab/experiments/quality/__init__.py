"""The quality benchmark: for the same number of metric queries, which method gives the better metric on test data?

A cell is one method on one problem with one seed. `run_bench` fills a folder of cells, one file each, and goes on where
it was interrupted; `summarise` turns whatever cells are there into tables, a list of targets met and missed, and plots.
"""

from metricopt_lab.experiments.quality.methods import Method, method_names, methods_of
from metricopt_lab.experiments.quality.run import run_bench
from metricopt_lab.experiments.quality.settings import Settings
from metricopt_lab.experiments.quality.summary import summarise

__all__ = ["Method", "Settings", "method_names", "methods_of", "run_bench", "summarise"]
