"""BoTorch's Gaussian process with its own defaults, fitted further whenever there is a tenth more to learn from.

Length scales have the dimension-scaled prior LogNormal(sqrt 2 + ln(d) / 2, sqrt 3) (Hvarfner et al. 2024), values are
standardised, the noise has the prior LogNormal(-4, 1), unless it is told: that is what `SingleTaskGP` is since
BoTorch 0.12.
"""

from collections.abc import Callable
from typing import Any, final

import torch
from torch import Tensor

from metricopt_lab.rivals.libraries.box import Box
from metricopt_lab.rivals.libraries.guest import guest

_GROWTH = 1.1
_STEPS = 50  # of L-BFGS from where the last fit ended: without a bound one fit of 450 answers took up to a minute
_PARTS = ("covar_module", "mean_module", "likelihood")  # not the standardisation, which is of the present values
_TOLD_PARTS = _PARTS[:2]  # a likelihood that is told the noise of each answer has nothing to learn


@final
class Surrogate:
    """The process of a search.

    Args:
        kernel: Makes its kernel for a dimension; BoTorch's own if None.
        noise: Standard deviation of an answer; inferred from the answers if None.
    """

    def __init__(self, kernel: Callable[[int], Any] | None = None, *, noise: float | None = None) -> None:
        self._kernel, self._noise = kernel, noise
        self._parts = _PARTS if noise is None else _TOLD_PARTS
        self._learnt: dict[str, dict[str, Tensor]] = {}
        self._next = 0

    def given(self, box: Box) -> Any:
        """The process given all answers of a box; its hyper-parameters are fitted now and then."""
        guest("botorch")
        from botorch.fit import fit_gpytorch_mll
        from botorch.models import SingleTaskGP
        from gpytorch.mlls import ExactMarginalLogLikelihood

        kernel = None if self._kernel is None else self._kernel(box.points.shape[1])
        values = box.values[:, None]
        told = None if self._noise is None else torch.full_like(values, self._noise**2)
        model = SingleTaskGP(box.points, values, told, covar_module=kernel)
        for part, state in self._learnt.items():
            getattr(model, part).load_state_dict(state)
        if len(box.points) >= self._next:
            likelihood = ExactMarginalLogLikelihood(model.likelihood, model)
            fit_gpytorch_mll(likelihood, optimizer_kwargs={"options": {"maxiter": _STEPS}})
            self._next = int(_GROWTH * len(box.points)) + 1
            self._learnt = {part: getattr(model, part).state_dict() for part in self._parts}
        return model.eval()
