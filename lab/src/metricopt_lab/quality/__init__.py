"""The quality benchmark: for the same number of metric calls, which method gives the better metric on test data?

A cell is one method on one problem with one seed at one budget. Problems are of two halves: development, which may be
looked at, and final, which is measured once.
"""

from metricopt_lab.quality.experiment import Quality
from metricopt_lab.quality.methods import METHODS, methods_of
from metricopt_lab.quality.settings import Settings

__all__ = ["METHODS", "Quality", "Settings", "methods_of"]
