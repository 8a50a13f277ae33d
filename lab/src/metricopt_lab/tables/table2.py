"""Table 2 of the paper."""

from typing import final

from metricopt_lab.cells import EXPERIMENTS
from metricopt_lab.tables.cifar.table import CifarTable


@EXPERIMENTS.add("table2")
@final
class Table2(CifarTable):
    """The paper's Table 2: AUCPR of a small network on CIFAR-10, ours and the rivals' beside the published."""

    number = 2
    network = "small_convnet"
    metric = "aucpr"
