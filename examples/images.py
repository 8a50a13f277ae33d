"""A ConvNet and a metric in plain Python: the error rate of the class that is recognised worst.

Scans of handwritten digits come with scikit-learn. Eights are rare among those the network is trained on, and
cross-entropy is content if a rare digit is often missed as long as the others do well. The metric is not.
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import metricopt as mo
from metricopt.losses import cross_entropy


def worst_class_error(truth: np.ndarray, predicted: np.ndarray) -> float:
    """Error rate of the class with the most errors."""
    return max(float(np.mean(predicted[truth == label] != label)) for label in np.unique(truth))


def trained(images: torch.Tensor, labels: torch.Tensor) -> nn.Module:
    """A small ConvNet after a short training on few images."""
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(net.parameters(), lr=0.003)
    for _ in range(30):
        optimizer.zero_grad()
        cross_entropy(net(images), labels).backward()
        optimizer.step()
    return net.eval()


def main() -> mo.Result:
    """Train, improve the worst class, and look at images that were never used."""
    torch.manual_seed(0)
    digits = load_digits()
    order = torch.randperm(len(digits.target))
    images = torch.tensor(digits.images / 8 - 1, dtype=torch.float32)[order, None]  # (1797, 1, 8, 8)
    labels = torch.tensor(digits.target)[order]
    seen = torch.arange(500)[(labels[:500] != 8) | (torch.arange(500) % 10 == 0)]  # a tenth of the eights
    net = trained(images[seen], labels[seen])

    result = mo.optimize(
        net,
        loss=cross_entropy,
        metric=mo.Metric(worst_class_error, on="labels", goal="min"),
        train=(images[seen], labels[seen]),
        val=(images[500:1300], labels[500:1300]),
        queries=100,
    )
    print(result)
    report = result.evaluate((images[1300:], labels[1300:]))
    print(f"on {report.examples} test images: {report.before:.3f} -> {report.after:.3f}")
    return result


if __name__ == "__main__":
    main()
