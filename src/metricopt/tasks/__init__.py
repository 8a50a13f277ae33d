"""Problems: data sets with pre-trained networks, and a synthetic task in closed form."""

from metricopt.tasks.cifar import cifar
from metricopt.tasks.mismatch import PROBLEMS, ProblemSpec
from metricopt.tasks.pretrain import pretrain
from metricopt.tasks.pretrain_images import pretrain_images
from metricopt.tasks.pretrained import load_network, pretrained_resnet32, pretrained_small_convnet
from metricopt.tasks.problem import Problem
from metricopt.tasks.synthetic import QuadraticTask
from metricopt.tasks.tabular import tabular

__all__ = [
    "PROBLEMS",
    "Problem",
    "ProblemSpec",
    "QuadraticTask",
    "cifar",
    "load_network",
    "pretrain",
    "pretrain_images",
    "pretrained_resnet32",
    "pretrained_small_convnet",
    "tabular",
]
