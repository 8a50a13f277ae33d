"""Table 1 of the paper."""

from typing import final

from metricopt_lab.cells import EXPERIMENTS
from metricopt_lab.tables.cifar.table import CifarTable


@EXPERIMENTS.add("table1")
@final
class Table1(CifarTable):
    """The paper's Table 1: error rate of ResNet-32 on CIFAR-10, ours and the rivals' beside the published."""

    number = 1
    network = "resnet32"
    metric = "mcr"
