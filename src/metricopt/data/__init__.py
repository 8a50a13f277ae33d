"""Data sets as tables, splits of them, and checks that sets are apart.

Example:
    >>> from metricopt.data import DATASETS
    >>> list(DATASETS)
    ['adult_a9a', 'adult_raw', 'covtype2', 'covtype7']
"""

from metricopt.data.adult import adult_a9a, adult_raw
from metricopt.data.apart import check_apart, shared_rows
from metricopt.data.covtype import covtype
from metricopt.data.split import check_disjoint, split
from metricopt.data.standardiser import Standardiser
from metricopt.data.table import DATASETS, Table

__all__ = [
    "DATASETS",
    "Standardiser",
    "Table",
    "adult_a9a",
    "adult_raw",
    "check_apart",
    "check_disjoint",
    "covtype",
    "shared_rows",
    "split",
]
