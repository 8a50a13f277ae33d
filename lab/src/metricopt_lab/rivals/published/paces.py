"""At which pace rivals and losses train in a table: the best of those tried on splits that no table reports.

`metricopt run rival-paces` tries them; where none is named here, a row's own is the best of them or none was tried.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from metricopt_lab.rivals.descent import LR, STEPS
from metricopt_lab.rivals.published import ala, moew, rambo, setwise
from metricopt_lab.rivals.published.lesson import Pace
from metricopt_lab.rivals.published.named import rival_of

LOSS = Pace(steps=STEPS, lr=LR)
"""Of losses on phi or on some weights."""

WHOLE = Pace(steps=2, lr=0.002)
"""Of losses on all weights of a table's network: steps are epochs here."""

USUAL: Mapping[str, Pace] = MappingProxyType(
    {
        "moew": moew.PACE,
        "ala": ala.PACE,
        "rambo": rambo.PACE,
        "sl": setwise.PACE,
        **dict.fromkeys(("large_margin", "pairwise_aucroc", "aucpr"), LOSS),
        **dict.fromkeys(("lovasz", "cost_sensitive"), WHOLE),
    }
)
"""A row's own, where nothing else is said."""

TUNED: Mapping[str, Mapping[str, tuple[int, float]]] = MappingProxyType(
    {
        "a9a": {"sl_weights": (80, 0.002), "lovasz": (2, 1.6e-5), "cost_sensitive": (8, 0.002)},
        "covtype2": {
            "sl": (80, 0.002),
            "sl_weights": (80, 0.05),
            "lovasz": (8, 0.002),
            "cost_sensitive": (8, 0.002),
        },
        "small_convnet": {
            "moew": (50, 0.5),
            "moew_weights": (50, 12.5),
            "ala": (20, 0.5),
            "ala_weights": (20, 0.1),
            "rambo": (800, 0.1),
            "rambo_weights": (800, 0.1),
            "pairwise_aucroc": (2000, 0.5),
            "pairwise_aucroc_weights": (2000, 0.02),
            "aucpr": (2000, 0.5),
            "aucpr_weights": (2000, 0.02),
        },
        "resnet32": {
            "moew": (50, 2.5),
            "moew_weights": (50, 2.5),
            "large_margin": (500, 0.004),
            "large_margin_weights": (500, 0.004),
        },
    }
)
"""Steps and rate by data set and row, where others than its own were the best."""


def paces_of(data: str) -> dict[str, Pace]:
    """The paces of the rows on a data set that are not their own.

    Example:
        >>> paces_of("digits")
        {}
    """
    tuned = TUNED.get(data, {})
    return {row: replace(USUAL[rival_of(row)], steps=steps, lr=lr) for row, (steps, lr) in tuned.items()}


def told(data: str, row: str) -> dict[str, str]:
    """What a record says of a pace that is not the row's own; one made at another pace is not of the present.

    Example:
        >>> told("digits", "moew")
        {}
    """
    pace = paces_of(data).get(row)
    return {} if pace is None else {"pace": f"{pace.steps} steps of {pace.lr:g}"}
