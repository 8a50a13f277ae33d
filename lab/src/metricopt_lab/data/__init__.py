"""Data sets as tables or images, and splits of them.

Example:
    >>> from metricopt_lab.data import DATASETS
    >>> list(DATASETS)
    ['adult_a9a', 'adult_raw', 'covtype2', 'covtype7']
"""

from metricopt_lab.data.adult import adult_a9a, adult_raw
from metricopt_lab.data.cifar10 import Cifar10, Cifar10Split, cifar10, cifar10_split
from metricopt_lab.data.covtype import covtype
from metricopt_lab.data.split import check_disjoint, split
from metricopt_lab.data.standardiser import Standardiser
from metricopt_lab.data.table import DATASETS, Table

__all__ = [
    "DATASETS",
    "Cifar10",
    "Cifar10Split",
    "Standardiser",
    "Table",
    "adult_a9a",
    "adult_raw",
    "check_disjoint",
    "cifar10",
    "cifar10_split",
    "covtype",
    "split",
]
