"""Average precision of matches, on all images or on resamples of them: an image drawn twice counts twice."""

import numpy as np

from metricopt.metrics.boxes.matching import Matches, Rule

_POINTS = {"coco": 101, "voc07": 11}


def average_precision(found: Matches, weights: np.ndarray, *, rule: Rule) -> np.ndarray:
    """Average precision of each class, NaN where there is nothing to find, (resamples, overlaps, classes).

    Args:
        found: Matches of all images.
        weights: How often each image counts, (resamples, images).
        rule: How precision is averaged over recall.

    Example:
        >>> from metricopt.metrics.boxes.given import detections, truths
        >>> from metricopt.metrics.boxes.matching import matched
        >>> box = [[0.0, 0.0, 2.0, 2.0]]
        >>> true = truths([{"boxes": box, "labels": [1]}] * 2)
        >>> said = [{"boxes": box, "labels": [1], "scores": [0.9]}, {"boxes": [], "labels": [], "scores": []}]
        >>> found = matched(true, detections(said), overlaps=[0.5], rule="area")
        >>> average_precision(found, np.array([[1, 1], [2, 0], [1, 3]]), rule="area")[:, 0, 0].tolist()
        [0.5, 1.0, 0.25]
    """
    wanted = weights @ found.positives  # (resamples, classes)
    values = np.full((len(weights), len(found.hit), len(found.classes)), np.nan)
    for place in range(len(found.classes)):
        mine = found.label == place
        each = weights[:, found.image[mine]][:, None]  # (resamples, 1, detections)
        hits = (each * found.hit[:, mine]).cumsum(2)
        counted = (each * found.counts[:, mine]).cumsum(2)
        there = wanted[:, place] > 0
        recall = hits[there] / wanted[there, place, None, None]
        precision = hits[there] / np.maximum(counted[there], 1)
        values[there, :, place] = _averaged(recall, precision, rule)
    return values


def _averaged(recall: np.ndarray, precision: np.ndarray, rule: Rule) -> np.ndarray:
    """Mean of the best precision at any recall as high or higher, (..., detections) to (...)."""
    if not recall.size:
        return np.zeros(recall.shape[:-1])
    best = np.maximum.accumulate(precision[..., ::-1], -1)[..., ::-1]
    if rule == "area":
        return (np.diff(recall, axis=-1, prepend=0.0) * best).sum(-1)
    levels = np.linspace(0.0, 1.0, _POINTS[rule])
    flat = recall.reshape(-1, recall.shape[-1])
    at = np.stack([np.searchsorted(row, levels, side="left") for row in flat]).reshape(*recall.shape[:-1], -1)
    padded = np.concatenate([best, np.zeros((*best.shape[:-1], 1))], -1)  # a recall that is never reached
    return np.take_along_axis(padded, at, -1).mean(-1)
