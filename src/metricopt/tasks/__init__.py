"""Problems: data sets with pre-trained networks, and a synthetic task in closed form."""

from metricopt.tasks.mismatch import PROBLEMS, ProblemSpec
from metricopt.tasks.pretrain import pretrain
from metricopt.tasks.problem import Problem
from metricopt.tasks.synthetic import QuadraticTask
from metricopt.tasks.tabular import tabular

__all__ = ["PROBLEMS", "Problem", "ProblemSpec", "QuadraticTask", "pretrain", "tabular"]
