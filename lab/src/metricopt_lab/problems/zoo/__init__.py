"""The zoo: problems as users have them, of five sources, half for development and half to be measured once."""

from metricopt_lab.problems.zoo.problem import Half, UserProblem
from metricopt_lab.problems.zoo.specs import DEVELOPMENT_SEEDS, FINAL_SEEDS, PROBLEMS, Spec, of_half

__all__ = ["DEVELOPMENT_SEEDS", "FINAL_SEEDS", "PROBLEMS", "Half", "Spec", "UserProblem", "of_half"]
