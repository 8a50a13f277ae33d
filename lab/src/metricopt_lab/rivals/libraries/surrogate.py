"""BoTorch's Gaussian process with its own defaults, fitted further whenever there is a tenth more to learn from.

Length scales have the dimension-scaled prior LogNormal(sqrt 2 + ln(d) / 2, sqrt 3) (Hvarfner et al. 2024), values are
standardised, the noise has the prior LogNormal(-4, 1): that is what `SingleTaskGP` is since BoTorch 0.12.
"""

from collections.abc import Callable
from typing import Any, final

from torch import Tensor

from metricopt_lab.rivals.libraries.box import Box
from metricopt_lab.rivals.libraries.guest import guest

_GROWTH = 1.1
_STEPS = 50  # of L-BFGS from where the last fit ended: without a bound one fit of 450 answers took up to a minute
_PARTS = ("covar_module", "mean_module", "likelihood")  # not the standardisation, which is of the present values


@final
class Surrogate:
    """The process of a search.

    Args:
        kernel: Makes its kernel for a dimension; BoTorch's own if None.
    """

    def __init__(self, kernel: Callable[[int], Any] | None = None) -> None:
        self._kernel = kernel
        self._learnt: dict[str, dict[str, Tensor]] = {}
        self._next = 0

    def given(self, box: Box) -> Any:
        """The process given all answers of a box; its hyper-parameters are fitted now and then."""
        guest("botorch")
        from botorch.fit import fit_gpytorch_mll
        from botorch.models import SingleTaskGP
        from gpytorch.mlls import ExactMarginalLogLikelihood

        kernel = None if self._kernel is None else self._kernel(box.points.shape[1])
        model = SingleTaskGP(box.points, box.values[:, None], covar_module=kernel)
        for part, state in self._learnt.items():
            getattr(model, part).load_state_dict(state)
        if len(box.points) >= self._next:
            likelihood = ExactMarginalLogLikelihood(model.likelihood, model)
            fit_gpytorch_mll(likelihood, optimizer_kwargs={"options": {"maxiter": _STEPS}})
            self._next = int(_GROWTH * len(box.points)) + 1
            self._learnt = {part: getattr(model, part).state_dict() for part in _PARTS}
        return model.eval()
