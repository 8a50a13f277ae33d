"""Statistics of predictions that know no data set: what a metric of classes can depend on, whatever the rows."""

import torch
from torch import Tensor

_BINS = 10


def statistics(outputs: Tensor, reference: Tensor) -> Tensor:
    """Statistics (population, features) of outputs (population, n, columns) beside one class a row, (n,).

    A confusion matrix of the classes said and a soft one of probabilities, each with rows by the reference; a histogram
    of the highest probability; and, for calibration, the mean probability of each class where it is said. Metrics of
    labels are functions of the first alone, if the reference is the truth.

    Example:
        >>> said = torch.tensor([[[9.0, 0.0], [0.0, 9.0]], [[9.0, 0.0], [9.0, 0.0]]])
        >>> statistics(said, torch.tensor([0, 1]))[:, :4]
        tensor([[0.5000, 0.0000, 0.0000, 0.5000],
                [0.5000, 0.0000, 0.5000, 0.0000]])
    """
    probabilities = _probabilities(outputs)  # (population, n, classes)
    classes, rows = probabilities.shape[2], probabilities.shape[1]
    top, said = probabilities.max(2)
    hard = torch.nn.functional.one_hot(said, classes).to(probabilities)
    groups = torch.nn.functional.one_hot(reference.clamp(0, classes - 1), classes).to(probabilities) / rows
    confusion = torch.einsum("nr,pnc->prc", groups, hard)
    soft = torch.einsum("nr,pnc->prc", groups, probabilities)
    bins = ((top - 1 / classes) / (1 - 1 / classes) * _BINS).long().clamp(0, _BINS - 1)
    histogram = torch.nn.functional.one_hot(bins, _BINS).to(probabilities).mean(1)
    calibration = (hard * probabilities).mean(1)
    return torch.cat([confusion.flatten(1), soft.flatten(1), histogram, calibration], 1)


def _probabilities(outputs: Tensor) -> Tensor:
    if outputs.shape[2] > 1:
        return outputs.softmax(2)
    yes = outputs.sigmoid()
    return torch.cat([1 - yes, yes], 2)
