"""Predictions in coordinates in which distances say how differently two models predict."""

import math

import torch
from torch import Tensor


def fisher_features(outputs: Tensor, *, raw: bool = False) -> Tensor:
    """Outputs (population, n, ...) as (population, features): squared differences are Fisher distances.

    Args:
        outputs: Logits, of one unit or of several classes, or embeddings.
        raw: Whether they matter as they are, as embeddings do, whose only scale is their own.

    Example:
        >>> certain = fisher_features(torch.tensor([[[-40.0], [40.0]]]))  # of class 0, of class 1
        >>> [round(number, 2) for number in certain[0].tolist()]
        [0.0, 1.41, 1.41, 0.0]
    """
    if raw:
        features = outputs / outputs.std().clamp_min(1e-6)
    elif outputs.dim() == 2 or outputs.shape[-1] == 1:
        logits = outputs.reshape(*outputs.shape[:2], 1)
        features = 2 * torch.sigmoid(torch.cat([logits, -logits], -1)).sqrt()
    else:
        features = 2 * outputs.softmax(-1).sqrt()
    return features.flatten(1) / math.sqrt(features.shape[1])
