"""What comes last, tried before the first query: merging, saving and the report must not fail once all is paid for."""

import math
import tempfile
import warnings

from metricopt.acceptance.comparison import Comparison
from metricopt.api.plan import Plan
from metricopt.api.result import Result
from metricopt.core.errors import MergeWarning
from metricopt.core.records import Outcome
from metricopt.run.ledger import QueryLedger
from metricopt.task.supervised import SupervisedTask

_LARGE = 2**26  # bytes that would take long to write
_SIZE = 0.1  # of each coordinate of phi: at 0 every way of merging would do


def rehearse(task: SupervisedTask, plan: Plan) -> str:
    """Merge, save and draw a result that does not exist yet; what merging will be like, if it is not plain folding.

    Raises whatever would have been raised in the end.

    Example:
        >>> import torch
        >>> from metricopt.adapters import OutputAffine, adapt
        >>> from metricopt.data.dataset import Examples
        >>> from metricopt.metrics import mcr
        >>> data = Examples(torch.zeros(40, 3), torch.arange(40) % 2)
        >>> net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Softmax(dim=1))
        >>> model = adapt(net, OutputAffine(), example=data.inputs[:2])
        >>> plan = Plan("mcr", (), "labels", "cross_entropy")
        >>> rehearse(SupervisedTask(model, metric=mcr(), train=data, search=data), plan).split(":")[0]
        'the adapter cannot be folded into the weights, so merge gives a module that computes it'
    """
    model = task.model
    before = model.phi.detach().clone()
    model.phi.data.fill_(_SIZE)
    try:
        _, said = model.merged()
        result = _imagined(task, plan)
        with tempfile.TemporaryDirectory(prefix="metricopt-") as folder:
            if sum(tensor.nbytes for tensor in model.tensors().values()) < _LARGE:
                result.save(folder)
            result.report(f"{folder}/report.html")
    finally:
        model.phi.data.copy_(before)
    return said


def warn_of(said: str) -> None:
    """Say once that merging will not fold."""
    if said:
        warnings.warn(said, MergeWarning, stacklevel=4)


def _imagined(task: SupervisedTask, plan: Plan) -> Result:
    phi = task.model.phi.detach().cpu().clone()
    unknown = Comparison(math.nan, math.nan, (math.nan, math.nan), level=0.9, confidence=0.0, resamples=0, examples=1)
    return Result(
        model=task.model,
        metric=task.metric,
        comparison=unknown,
        proposal=phi,
        outcome=Outcome(phi, ((1, phi),)),
        ledger=QueryLedger(),
        seconds=0.0,
        rank_correlation=math.nan,
        plan=plan.to_dict(),
    )
