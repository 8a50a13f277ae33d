"""The paper's network for A9A and CoverType: an MLP with 100-30-10 hidden units."""

from itertools import pairwise

from torch import Tensor, nn

from metricopt_lab.networks.registry import MODELS


class TabularMLP(nn.Module):
    """Leaky-ReLU MLP with BatchNorm and dropout at each hidden layer.

    Args:
        features: Columns of the input, (n, features).
        outputs: Logits per row. One logit comes as (n,), several as (n, outputs).
        hidden: Units of each hidden layer.
        dropout: Probability of dropping a hidden unit; the paper gives none.

    Example:
        >>> import torch
        >>> x = torch.zeros(8, 123)
        >>> TabularMLP(123)(x).shape, TabularMLP(123, outputs=7)(x).shape
        (torch.Size([8]), torch.Size([8, 7]))
    """

    def __init__(
        self, features: int, outputs: int = 1, *, hidden: tuple[int, ...] = (100, 30, 10), dropout: float = 0.1
    ) -> None:
        super().__init__()
        sizes = (features, *hidden)
        self.hidden = nn.ModuleList(_layer(before, after, dropout) for before, after in pairwise(sizes))
        self.output = nn.Linear(sizes[-1], outputs)
        self.outputs = outputs

    def forward(self, x: Tensor) -> Tensor:
        """Logits of rows of features."""
        for layer in self.hidden:
            x = layer(x)
        logits = self.output(x)  # (n, outputs)
        return logits.squeeze(-1) if self.outputs == 1 else logits


def _layer(before: int, after: int, dropout: float) -> nn.Sequential:
    return nn.Sequential(nn.Linear(before, after), nn.BatchNorm1d(after), nn.LeakyReLU(), nn.Dropout(dropout))


# Called, not decorating: the registry's decorator would hide the class's own arguments from type checkers.
MODELS.add("tabular_mlp")(TabularMLP)
