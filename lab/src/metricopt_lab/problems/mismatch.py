"""The problems of the quality benchmark, by what stands between the pre-trained network and a good metric.

- threshold: the scores are fine and only the cut is not; post-hoc shifts can do it all.
- ranking: the metric looks at the order of scores or at groups; a threshold can do nothing or little.
- mismatch: the training data are not like the data the network is used on.

All have the same network (MLP 100-30-10) and adapter (FiLM and an output affine).
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, Protocol

from metricopt.core.registry import Registry
from metricopt_lab.problems.adult import adult
from metricopt_lab.problems.covtype import covtype
from metricopt_lab.problems.problem import Problem

Kind = Literal["threshold", "ranking", "mismatch"]


class Build(Protocol):
    """Makes a problem; `dim` is the size of FiLM's part of phi."""

    def __call__(self, *, seed: int, cache: Path | None = None, dim: int = 32) -> Problem:
        """The problem of that seed."""
        ...


@dataclass(frozen=True)
class ProblemSpec:
    """A problem that can be built for any seed.

    Attributes:
        name: Its name in the registry.
        kind: What stands between the network and the metric.
        build: Makes it: `build(seed=0, cache=folder, dim=32)`.
        description: One line about it.

    Example:
        >>> PROBLEMS["a9a_plain_f1"].kind
        'threshold'
    """

    name: str
    kind: Kind
    build: Build
    description: str


PROBLEMS: Registry[ProblemSpec] = Registry("problem")
"""The problems by name; those on CoverType need its data (see `metricopt_lab.data.covtype`)."""


def _add(name: str, kind: Kind, build: partial[Problem], description: str) -> None:
    PROBLEMS.add(name)(ProblemSpec(name, kind, partial(build, name), description))


_a9a, _adult, _covtype = partial(adult, data="adult_a9a"), partial(adult, data="adult_raw"), partial(covtype)
# As many test rows as the smallest of CoverType's areas has for an equal share.
_by_area = partial(covtype, metric="worst_group_accuracy", by_area=True, sizes=(60_000, 20_000, 20_000, 48_000))
_SHIFT, _AWAY = (0, (2,)), (2, (0, 1, 3))  # the wilderness area of training, and those of use

_add("a9a_balanced_f1", "threshold", partial(_a9a, metric="f1", sampling="balanced"),
     "F1 on A9A after class-balanced training, which says yes too often")  # fmt: skip
_add("a9a_plain_f1", "threshold", partial(_a9a, metric="f1"),
     "F1 on A9A after plain training, which says yes too seldom")  # fmt: skip
_add("a9a_plain_g_mean", "threshold", partial(_a9a, metric="g_mean"),
     "geometric mean of both recalls on A9A after plain training")  # fmt: skip
_add("a9a_plain_jaccard", "threshold", partial(_a9a, metric="jaccard"),
     "Jaccard index on A9A after plain training")  # fmt: skip
_add("covtype7_macro_f1", "threshold", partial(_covtype, metric="macro_f1"),
     "macro F1 of CoverType's seven classes after plain training")  # fmt: skip
# Plain training leaves a rare class without any recall, hence a geometric mean of 0 and nothing to compare.
_add("covtype7_g_mean", "threshold", partial(_covtype, metric="g_mean", sampling="balanced"),
     "geometric mean of the recalls of CoverType's seven classes after class-balanced training")  # fmt: skip

_add("a9a_aucpr", "ranking", partial(_a9a, metric="aucpr"),
     "area under the precision-recall curve on A9A")  # fmt: skip
_add("covtype7_aucpr_macro", "ranking", partial(_covtype, metric="aucpr_macro"),
     "mean area under the precision-recall curve of CoverType's seven classes")  # fmt: skip
_add("a9a_precision_top10", "ranking", partial(_a9a, metric="precision_at_top"),
     "precision among the tenth of A9A's rows with the highest scores")  # fmt: skip
_add("adult_worst_group", "ranking", partial(_adult, metric="worst_group_accuracy", by_group=True),
     "accuracy in the worst of Adult's groups by sex and race (rare races together)")  # fmt: skip
_add("covtype7_worst_area", "ranking", _by_area,
     "accuracy in the worst of CoverType's four wilderness areas")  # fmt: skip

_add("adult_flipped_g_mean", "mismatch", partial(_adult, metric="g_mean", flipped=0.3),
     "geometric mean of both recalls on Adult, 30% of the positive training labels turned negative")  # fmt: skip
_add("adult_flipped_aucpr", "mismatch", partial(_adult, metric="aucpr", flipped=0.3),
     "area under the precision-recall curve on Adult, 30% of the positive training labels turned negative")  # fmt: skip
_add("covtype_shift_mcr", "mismatch", partial(_covtype, metric="mcr", areas=_SHIFT),
     "misclassification rate on CoverType, trained on one wilderness area and used on another")  # fmt: skip
_add("covtype_shift_macro_f1", "mismatch", partial(_covtype, metric="macro_f1", areas=_SHIFT),
     "macro F1 on CoverType, trained on one wilderness area and used on another")  # fmt: skip
_add("covtype_away_mcr", "mismatch", partial(_covtype, metric="mcr", areas=_AWAY),
     "misclassification rate on CoverType, trained on another wilderness area and used on the other three")  # fmt: skip
_add("covtype_away_macro_f1", "mismatch", partial(_covtype, metric="macro_f1", areas=_AWAY),
     "macro F1 on CoverType, trained on another wilderness area and used on the other three")  # fmt: skip
_add("covtype_away_aucpr_macro", "mismatch", partial(_covtype, metric="aucpr_macro", areas=_AWAY),
     "mean area under the precision-recall curve on CoverType, trained and used as before")  # fmt: skip
_add("covtype_away_worst_area", "mismatch", partial(_by_area, areas=_AWAY),
     "accuracy in the worst of the three areas of use on CoverType, trained and used as before")  # fmt: skip
_add("covtype7_noisy_mcr", "mismatch", partial(_covtype, metric="mcr", noisy=0.4),
     "misclassification rate on CoverType, 40% of the training labels replaced at random")  # fmt: skip
