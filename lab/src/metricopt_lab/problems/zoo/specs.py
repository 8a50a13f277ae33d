"""The problems of the quality benchmark by name, and which half each belongs to.

Decided before anything was measured: problems marked "development" may be looked at as often as one likes; those marked
"final" are built to see that they build, and measured once, at the end, with seeds that development never used.
Both halves have every source, clean, noisy, shifted and small-validation variants, and hidden labels. Rows with visible
labels never share both variant and metric with the other half; three problems with hidden labels have the variant and
metric of a visible one of the other half (adult_flipped_aucpr, reviews_shift_rating_kappa, reviews_shift_within_one).
Kinds: "threshold" (a shift of outputs can do nearly all), "ranking" (order of scores, groups), "classes" (trade-offs
between many classes), "mismatch" (training data unlike the data of use), "null" (no headroom
expected: the right answer is about the original).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from metricopt.core.registry import Registry
from metricopt.metrics import METRICS, Metric, aucpr_macro, precision_at_recall
from metricopt_lab.problems.zoo import metrics, sources
from metricopt_lab.problems.zoo.building import Variant, built
from metricopt_lab.problems.zoo.problem import Half, Kind, UserProblem
from metricopt_lab.problems.zoo.sources import Pool

DEVELOPMENT_SEEDS = range(5)
FINAL_SEEDS = range(100, 112)


@dataclass(frozen=True)
class Spec:
    """A problem that can be built for any seed.

    Attributes:
        name: Its name in tables.
        half: Whether it may be looked at while developing.
        kind: What stands between the network and the metric.
        source: Where its rows come from.
        labels_visible: Whether the labels of validation rows may be learnt from.
        pool: All rows.
        metric: Makes the metric.
        variant: What is done to the rows.
    """

    name: str
    half: Half
    kind: Kind
    source: str
    labels_visible: bool
    pool: Callable[[], Pool]
    metric: Callable[[], Metric]
    variant: Variant

    @property
    def about(self) -> str:
        """One line about it.

        Example:
            >>> PROBLEMS["covtype_shift_mcr_hidden"].about
            '(development, mismatch) mcr, 4,000 validation rows from elsewhere, labels hidden'
        """
        variant = self.variant
        facts = {
            f"{variant.noisy:.0%} of the training labels random": variant.noisy,
            f"{variant.flipped:.0%} of the positive training labels negative": variant.flipped,
        }
        moved = " from elsewhere" if variant.shift or variant.pixel_noise else ""
        moved = f" of {variant.unseen[1]} unseen classes" if variant.unseen else moved
        rows = f"{variant.sizes[1]:,} validation rows{moved}"
        labels = "labels visible" if self.labels_visible else "labels hidden"
        told = [self.metric().name, rows, *(text for text, share in facts.items() if share), labels]
        return f"({self.half}, {self.kind}) {', '.join(told)}"

    def build(self, seed: int) -> UserProblem:
        """The problem of that seed."""
        return built(self.name, self.pool, self.metric(), self.variant, labels_visible=self.labels_visible, seed=seed)


PROBLEMS: Registry[Spec] = Registry("problem")
"""All problems by name."""


def _add(
    half: Half, kind: Kind, name: str, pool: Callable[[], Pool], metric: Callable[[], Metric] | str, variant: Variant,
    *, hidden: bool = False,
) -> None:  # fmt: skip
    factory = METRICS[metric] if isinstance(metric, str) else metric
    PROBLEMS.add(name)(Spec(name, half, kind, name.split("_")[0], not hidden, pool, factory, variant))


def of_half(half: Half, *, labels_visible: bool) -> list[Spec]:
    """Problems of a half, in the order of their definition.

    Example:
        >>> len(of_half("development", labels_visible=True))
        14
    """
    return [spec for _, spec in PROBLEMS.items() if spec.half == half and spec.labels_visible == labels_visible]


_adult = partial(Variant, (22_000, 4_000, 22_842))
_adult_small = partial(Variant, (22_000, 500, 22_842))
_forest = partial(Variant, (40_000, 4_000, 40_000))
_forest_small = partial(Variant, (40_000, 500, 40_000))
_images = partial(Variant, (40_000, 3_000, 10_000), epochs=10)
_images_small = partial(Variant, (40_000, 500, 10_000), epochs=10)
_reviews = partial(Variant, (10_000, 3_000, 10_000), epochs=5)
_reviews_small = partial(Variant, (10_000, 500, 10_000), epochs=5)
_intents = partial(Variant, (12_000, 3_000, 0), epochs=10)
_intents_small = partial(Variant, (12_000, 500, 0), epochs=10)

_unseen_intents = partial(Variant, epochs=10, unseen=(70, 40, 40))

_NEXT_AREA, _AWAY = ("wilderness", (0,), (2,)), ("wilderness", (2,), (0, 1, 3))
_OTHER_GARMENTS = ("dresses", (1,), (0,))
_inside, _scopes = partial(sources.clinc, out_of_scope=False), partial(sources.clinc, out_of_scope=True)
_opinion, _rating, _garment = (partial(sources.reviews, about) for about in ("not recommended", "rating", "garment"))
_by_logit, _kappa7 = partial(aucpr_macro, by="logit"), partial(metrics.cohen_kappa, 7)
_kappa5, _oos = partial(metrics.quadratic_kappa, 5), partial(metrics.recall_at_false_alarms, 150)

_dev, _fin = partial(_add, "development"), partial(_add, "final")

_dev("ranking", "adult_flipped_aucpr", sources.adult, "aucpr", _adult(flipped=0.3))
_dev("threshold", "adult_small_f1", sources.adult, "f1", _adult_small())
_dev("null", "adult_aucpr", sources.adult, "aucpr", _adult())
_dev("mismatch", "covtype_shift_kappa", sources.covtype, _kappa7, _forest(shift=_NEXT_AREA))
_dev("mismatch", "covtype_noisy_macro_f1", sources.covtype, "macro_f1", _forest(noisy=0.4))
_dev("mismatch", "covtype_small_shift_mcr", sources.covtype, "mcr", _forest_small(shift=_NEXT_AREA))
_dev("ranking", "cifar_aucpr_logit", sources.cifar, _by_logit, _images())
_dev("classes", "cifar_noisy_worst_class", sources.cifar, "worst_class_recall", _images(noisy=0.4))
_dev("threshold", "reviews_f1", _opinion, "f1", _reviews())
_dev("ranking", "reviews_small_aucpr", _opinion, "aucpr", _reviews_small())
_dev("mismatch", "reviews_shift_rating_kappa", _rating, _kappa5, _reviews(shift=_OTHER_GARMENTS))
_dev("classes", "reviews_noisy_garment_macro_f1", _garment, "macro_f1", _reviews(noisy=0.4))
_dev("classes", "clinc_worst_intent", _inside, "worst_class_recall", _intents())
_dev("ranking", "clinc_noisy_oos_recall", _scopes, _oos, _intents(noisy=0.3))
_dev("mismatch", "covtype_shift_mcr_hidden", sources.covtype, "mcr", _forest(shift=_NEXT_AREA), hidden=True)
_dev("ranking", "adult_flipped_worst_group_hidden", sources.adult, "worst_group_accuracy",
     _adult(flipped=0.3, groups="sex"), hidden=True)  # fmt: skip
_dev("mismatch", "cifar_shift_g_mean_hidden", sources.cifar, "g_mean", _images(pixel_noise=0.08), hidden=True)
_dev("classes", "reviews_shift_within_one_hidden", _rating, metrics.within_one, _reviews(shift=_OTHER_GARMENTS),
     hidden=True)  # fmt: skip

# Text retrieval, added later than all others: sentences of intents that neither the network nor the search has seen.
_dev("ranking", "clinc_unseen_recall_hidden", _inside, "recall_at_k", _unseen_intents((10_500, 1_200, 6_000)),
     hidden=True)  # fmt: skip
_dev("ranking", "clinc_unseen_small_map_hidden", _inside, "map_at_r", _unseen_intents((10_500, 500, 6_000)),
     hidden=True)  # fmt: skip

_fin("ranking", "adult_worst_group", sources.adult, "worst_group_accuracy", _adult(groups="sex"))
_fin("threshold", "adult_flipped_g_mean", sources.adult, "g_mean", _adult(flipped=0.3))
_fin("ranking", "adult_small_precision_top", sources.adult, "precision_at_top", _adult_small(flipped=0.3))
_fin("mismatch", "covtype_away_mcr", sources.covtype, "mcr", _forest(shift=_AWAY))
_fin("threshold", "covtype_worst_class", sources.covtype, "worst_class_recall", _forest())
_fin("ranking", "covtype_small_noisy_aucpr", sources.covtype, "aucpr_macro", _forest_small(noisy=0.4))
_fin("classes", "cifar_worst_class", sources.cifar, "worst_class_recall", _images())
_fin("ranking", "cifar_noisy_aucpr_logit", sources.cifar, _by_logit, _images(noisy=0.4))
_fin("mismatch", "cifar_small_shift_g_mean", sources.cifar, "g_mean", _images_small(pixel_noise=0.08))
_fin("threshold", "reviews_noisy_g_mean", _opinion, "g_mean", _reviews(noisy=0.4))
_fin("ranking", "reviews_precision_at_recall", _opinion, partial(precision_at_recall, 0.8), _reviews())
_fin("mismatch", "reviews_shift_within_one", _rating, metrics.within_one, _reviews(shift=_OTHER_GARMENTS))
_fin("classes", "reviews_garment_worst_class", _garment, "worst_class_recall", _reviews())
_fin("classes", "clinc_noisy_macro_f1", _inside, "macro_f1", _intents(noisy=0.3))
_fin("ranking", "clinc_oos_recall", _scopes, _oos, _intents())
_fin("classes", "clinc_small_macro_f1", _inside, "macro_f1", _intents_small())
_fin("mismatch", "covtype_away_macro_f1_hidden", sources.covtype, "macro_f1", _forest(shift=_AWAY), hidden=True)
_fin("ranking", "adult_flipped_aucpr_hidden", sources.adult, "aucpr", _adult(flipped=0.3), hidden=True)
_fin("mismatch", "cifar_shift_aucpr_hidden", sources.cifar, "aucpr_macro", _images(pixel_noise=0.08), hidden=True)
_fin("mismatch", "reviews_shift_rating_kappa_hidden", _rating, _kappa5, _reviews(shift=_OTHER_GARMENTS),
     hidden=True)  # fmt: skip
