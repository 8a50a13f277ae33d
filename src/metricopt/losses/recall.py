"""The Recall loss of Rolínek et al. (2020): how many strangers rank before each look-alike, by black-box ranks."""

from collections.abc import Callable
from typing import Literal, get_args

import torch
from torch import Tensor

from metricopt.core.errors import DataError
from metricopt.core.registry import one_of
from metricopt.losses.blackbox_rank import blackbox_rank
from metricopt.losses.named import LOSSES
from metricopt.losses.similarity import mean_over_queries, similarities

Weight = Literal["log", "log_log"]

_WEIGHTS: dict[Weight, Callable[[Tensor], Tensor]] = {
    "log": torch.log1p,
    "log_log": lambda missed: torch.log1p(torch.log1p(missed)),
}


@LOSSES.add("recall")
def recall(
    outputs: Tensor, targets: Tensor, *, lam: float = 4.0, margin: float = 0.02, weight: Weight = "log_log"
) -> Tensor:
    """Mean over queries and their look-alikes of w(strangers that rank before the look-alike).

    That number is the rank among all others minus the rank among the query's own class; recall@k asks whether the
    smallest of them is below k. Ranks are differentiated as black boxes (`blackbox_rank`). Before ranking, look-alikes
    lose half the margin and strangers gain it, so that a lead has to be that large to count.

    Args:
        outputs: Embeddings (n, d) of any length; they are normalised here.
        targets: Classes, (n,).
        lam: Lambda for ranks divided by n, as in the authors' code, which has no default; 4 is what others use with it.
        margin: Alpha, in cosine.
        weight: w: "log" is log(1 + x), "log_log" log(1 + log(1 + x)).

    Example:
        >>> outputs = torch.tensor([[1.0, 0.0], [1.0, 0.1], [-1.0, 0.0], [-1.0, 0.1]])
        >>> float(recall(outputs, torch.tensor([0, 0, 1, 1])))
        0.0
        >>> float(recall(outputs, torch.tensor([0, 1, 0, 1]), weight="log")) > 0.6  # a stranger before each look-alike
        True
    """
    one_of(weight, get_args(Weight), what="weight")
    if margin < 0:
        raise DataError(f"margin is {margin}; expected 0 or more, in cosine")
    cosine, alike, itself = similarities(outputs, targets, loss="recall")
    shifted = cosine - margin * (alike.to(cosine) - 0.5)
    plain = lam * cosine.shape[-1]
    of_all = blackbox_rank(shifted.masked_fill(itself, -torch.inf), plain)
    of_own = blackbox_rank(shifted.masked_fill(~alike, -torch.inf), plain)
    # Where there is nothing to compare, 0 before the logarithm: beside it a gradient of NaN would remain.
    missed = torch.where(alike, of_all - of_own, 0.0)
    count = alike.sum(1)
    each = torch.where(alike, _WEIGHTS[weight](missed), 0.0).sum(1) / count.clamp(min=1)
    return mean_over_queries(each, count > 0)
