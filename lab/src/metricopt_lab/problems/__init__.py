"""Problems: those of the paper here, those of the quality benchmark in `zoo`, and a synthetic task in closed form."""

from metricopt.task.quadratic import QuadraticTask
from metricopt_lab.problems.cifar import cifar
from metricopt_lab.problems.pretrain import pretrain
from metricopt_lab.problems.pretrain_images import pretrain_images
from metricopt_lab.problems.pretrained import load_network, pretrained_resnet32, pretrained_small_convnet
from metricopt_lab.problems.problem import Problem
from metricopt_lab.problems.tabular import tabular

__all__ = [
    "Problem",
    "QuadraticTask",
    "cifar",
    "load_network",
    "pretrain",
    "pretrain_images",
    "pretrained_resnet32",
    "pretrained_small_convnet",
    "tabular",
]
