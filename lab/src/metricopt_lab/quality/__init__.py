"""The quality benchmark: for the same number of metric queries, which method gives the better metric on test data?

A cell is one method on one problem with one seed; whatever cells are there make tables, a list of targets met and
missed, and plots.
"""

from metricopt_lab.quality.experiment import Quality
from metricopt_lab.quality.methods import Method, method_names, methods_of
from metricopt_lab.quality.settings import Settings
from metricopt_lab.quality.summary import summary_of

__all__ = ["Method", "Quality", "Settings", "method_names", "methods_of", "summary_of"]
