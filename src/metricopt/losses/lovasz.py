"""Lovász extensions of the Jaccard loss (Berman et al. 2018): convex in the errors, equal to it where they are 0 or 1.

For positives G and a set S of mistaken examples the Jaccard loss is |S| / |G ∪ S|. Its Lovász extension at errors
e >= 0 sorts them from large to small and sums e_i * (loss of the first i mistaken - loss of the first i - 1 mistaken).
"""

import torch
from torch import Tensor

from metricopt.losses.named import LOSSES, classes_of, margin, membership, two_columns


@LOSSES.add("lovasz_hinge")
def lovasz_hinge(outputs: Tensor, targets: Tensor) -> Tensor:
    """Surrogate of one minus the Jaccard index of class 1 of two, from hinge errors max(0, 1 - sign * logit).

    Two output columns count as the single logit of their difference.

    Example:
        >>> float(lovasz_hinge(torch.tensor([1.0, -1.0, 0.0]), torch.tensor([1, 0, 0])))
        0.5
    """
    logit = margin(outputs, loss="lovasz_hinge")
    positive = classes_of(outputs, targets) == 1
    errors = (1 - torch.where(positive, logit, -logit)).clamp(min=0)
    return jaccard_extension(errors.unsqueeze(1), positive.unsqueeze(1))[0]


@LOSSES.add("lovasz_softmax")
def lovasz_softmax(outputs: Tensor, targets: Tensor) -> Tensor:
    """Surrogate of one minus the mean Jaccard index of the classes present, from one minus the true class' probability.

    A single logit z counts as the two columns (0, z), so both classes take part.

    Example:
        >>> outputs = torch.tensor([[9.0, 0.0, 0.0], [0.0, 9.0, 0.0]])
        >>> bool(lovasz_softmax(outputs, torch.tensor([0, 1])) < 0.001)
        True
    """
    columns = two_columns(outputs)
    member = membership(classes_of(outputs, targets), columns.shape[1])  # (n, classes)
    probability = columns.softmax(1)
    errors = torch.where(member, 1 - probability, probability)
    present = member.any(0)
    return (jaccard_extension(errors, member) * present).sum() / present.sum()


def jaccard_extension(errors: Tensor, positive: Tensor) -> Tensor:
    """Lovász extension of the Jaccard loss at `errors`, one for each column, (n, columns) -> (columns,).

    Example:
        >>> errors = torch.tensor([[1.0], [0.0], [1.0]])
        >>> jaccard_extension(errors, torch.tensor([[True], [True], [False]])).tolist() == [torch.tensor(2 / 3).item()]
        True
    """
    ordered, order = errors.sort(dim=0, descending=True)
    truth = positive.gather(0, order).to(errors.dtype)
    mistaken = torch.arange(1, len(errors) + 1, dtype=errors.dtype, device=errors.device).unsqueeze(1)
    union = truth.sum(0) + (1 - truth).cumsum(0)  # |G ∪ S| as S takes in one example after the other
    loss = mistaken / union
    before = torch.cat([torch.zeros_like(loss[:1]), loss[:-1]])
    return (ordered * (loss - before)).sum(0)
