"""Data sets as tables or images, splits of them, and checks that sets are apart.

Example:
    >>> from metricopt.data import DATASETS
    >>> list(DATASETS)
    ['adult_a9a', 'adult_raw', 'covtype2', 'covtype7']
"""

from metricopt.data.adult import adult_a9a, adult_raw
from metricopt.data.apart import check_apart, shared_rows
from metricopt.data.cifar10 import Cifar10, Cifar10Split, cifar10, cifar10_split
from metricopt.data.covtype import covtype
from metricopt.data.images import Images, image_folder
from metricopt.data.split import check_disjoint, split
from metricopt.data.standardiser import Standardiser
from metricopt.data.table import DATASETS, Table

__all__ = [
    "DATASETS",
    "Cifar10",
    "Cifar10Split",
    "Images",
    "Standardiser",
    "Table",
    "adult_a9a",
    "adult_raw",
    "check_apart",
    "check_disjoint",
    "cifar10",
    "cifar10_split",
    "covtype",
    "image_folder",
    "shared_rows",
    "split",
]
