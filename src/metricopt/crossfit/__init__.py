"""Cross-fitted finetuning of the network's own weights, where labels of the validation rows may be learnt from.

Every validation row is predicted by networks that have not seen it: all serve to learn, to choose and to decide.
"""

from metricopt.crossfit.settings import DEFAULT, EFFORTS, QUICK, WIDENING, CrossFit, Kind

__all__ = ["DEFAULT", "EFFORTS", "QUICK", "WIDENING", "CrossFit", "Kind"]
