"""Several phi of one model on data that nothing was chosen on: which is kept, what it changes, what it may break."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from metricopt.acceptance.bootstrap import Comparison, Kept, check_kept, climb
from metricopt.acceptance.changes import label_changes
from metricopt.adapters import AdaptedModel
from metricopt.adapters.device import examples_on_model, host_outputs
from metricopt.core.seeding import stream
from metricopt.data.dataset import Examples
from metricopt.metrics import Metric
from metricopt.metrics.constraint import Constraint


def compare_phi(
    model: AdaptedModel,
    metric: Metric,
    pair: Tensor,
    examples: Examples,
    *,
    resamples: int | None = None,
    seed: int = 0,
) -> Comparison:
    """Two phi (2, dim) of one model on the same examples; 500 resamples, or 50 of a metric that is costly.

    Example:
        >>> from metricopt.adapters import OutputAffine, adapt
        >>> from metricopt.metrics import as_metric
        >>> x = torch.linspace(-1, 1, 100)[:, None]
        >>> data, model = Examples(x, (x[:, 0] > 0).long()), adapt(nn.Linear(1, 1), OutputAffine())
        >>> _ = model.net.weight.data.fill_(1.0), model.net.bias.data.fill_(0.5)
        >>> pair = torch.tensor([[0.0, 0.0], [0.0, -0.5]])  # as it is, and shifted by -0.5
        >>> found = compare_phi(model, as_metric("accuracy"), pair, data)
        >>> found.before, found.after, found.accepted
        (0.75, 1.0, True)
    """
    return _climbed(model, metric, pair, examples, among=1, resamples=resamples, seed=seed)[1]


def keep_best(
    model: AdaptedModel,
    metric: Metric,
    rungs: Tensor,
    examples: Examples,
    *,
    among: int = 1,
    resamples: int | None = None,
    seed: int = 0,
) -> tuple[Tensor, Comparison]:
    """Which of the rungs (k, dim), plainest first, is kept (`climb`), and the original, phi = 0, against it.

    The last one, which is not accepted, if none is.

    Example:
        >>> from metricopt.adapters import OutputAffine, adapt
        >>> from metricopt.metrics import as_metric
        >>> x = torch.linspace(-1, 1, 100)[:, None]
        >>> data, model = Examples(x, (x[:, 0] > 0).long()), adapt(nn.Linear(1, 1), OutputAffine())
        >>> _ = model.net.weight.data.fill_(1.0), model.net.bias.data.fill_(0.5)
        >>> rungs = torch.tensor([[0.0, -0.5], [0.0, -0.6]])  # shifted by -0.5, and by too much
        >>> keep_best(model, as_metric("accuracy"), rungs, data)[0].tolist()
        [0.0, -0.5]
    """
    phis = torch.cat([torch.zeros_like(rungs[:1]), rungs])
    kept, comparison = _climbed(model, metric, phis, examples, among=among, resamples=resamples, seed=seed)
    return phis[kept], comparison


def _climbed(
    model: AdaptedModel,
    metric: Metric,
    phis: Tensor,
    examples: Examples,
    *,
    among: int,
    resamples: int | None,
    seed: int,
) -> tuple[int, Comparison]:
    candidates, examples = _candidates(model, metric, phis, examples)
    resamples, draw = resamples or resamples_of(metric), stream(seed, "compare")
    return climb(metric, candidates, examples, among=among, resamples=resamples, generator=draw)


def check_phi(model: AdaptedModel, constraint: Constraint, pair: Tensor, examples: Examples, *, seed: int = 0) -> Kept:
    """A constraint at two phi (2, dim) of one model, the second of which must keep it.

    Example:
        >>> from metricopt.adapters import OutputAffine, adapt
        >>> x = torch.linspace(-1, 1, 100)[:, None]
        >>> data, model = Examples(x, (x[:, 0] > 0).long()), adapt(nn.Linear(1, 1), OutputAffine())
        >>> _ = model.net.weight.data.fill_(1.0), model.net.bias.data.fill_(0.5)
        >>> pair = torch.tensor([[0.0, 0.0], [0.0, -0.5]])  # as it is, and shifted by -0.5
        >>> check_phi(model, Constraint("accuracy", at_least=0.9), pair, data).holds
        True
    """
    both, examples = _candidates(model, constraint.metric, pair, examples)
    resamples = resamples_of(constraint.metric)
    return check_kept(constraint, both, examples, resamples=resamples, generator=stream(seed, "constraint"))


def resamples_of(metric: Metric) -> int:
    """How many resamples a comparison by this metric is worth.

    Example:
        >>> from metricopt.metrics import as_metric
        >>> resamples_of(as_metric("f1"))
        500
    """
    return 50 if metric.costly else 500


def changes_at(model: AdaptedModel, metric: Metric, pair: Tensor, examples: Examples) -> dict[str, Any]:
    """Which examples the second of two phi (2, dim) gets right or wrong that the first did not, by class.

    Nothing where outputs are no predictions of classes or the true classes are not known here.

    Example:
        >>> from metricopt.adapters import OutputAffine, adapt
        >>> from metricopt.metrics import as_metric
        >>> x = torch.linspace(-1, 1, 100)[:, None]
        >>> data, model = Examples(x, (x[:, 0] > 0).long()), adapt(nn.Linear(1, 1), OutputAffine())
        >>> _ = model.net.weight.data.fill_(1.0), model.net.bias.data.fill_(0.5)
        >>> pair = torch.tensor([[0.0, 0.0], [0.0, -0.5]])  # as it is, and shifted by -0.5
        >>> changes_at(model, as_metric("accuracy"), pair, data)["won"]
        [25, 0]
    """
    if metric.hidden or metric.on in ("model", "embeddings"):
        return {}
    before, after = (host_outputs(model, phi[None], examples.inputs)[0] for phi in pair)
    return label_changes((before, after), examples.targets.cpu())


def _candidates(
    model: AdaptedModel, metric: Metric, phis: Tensor, examples: Examples
) -> tuple[list[Tensor | nn.Module], Examples]:
    """What the metric is asked about for each phi (k, dim), and the examples where it wants them."""
    if metric.on == "model":
        return [_at(model, phi) for phi in phis], examples_on_model(model, examples)
    outputs: list[Tensor | nn.Module] = [host_outputs(model, phi[None], examples.inputs)[0] for phi in phis]
    return outputs, examples.with_truth_on_host()


def _at(model: AdaptedModel, phi: Tensor) -> AdaptedModel:
    model = copy.deepcopy(model)
    model.phi.data.copy_(phi)
    return model
