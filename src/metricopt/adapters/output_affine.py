"""Output affine: every output unit scaled and shifted, which is all that post-hoc tuning of thresholds can do."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn

from metricopt.adapters.channels import Affine, fold_affine, modulated
from metricopt.adapters.layers import CONVOLUTION, LINEAR, Site, Survey, listing, named_sites
from metricopt.adapters.spec import ADAPTERS, Hook, Modulation, SingleAdapter
from metricopt.core.errors import AdapterError


@dataclass(frozen=True)
class OutputAffine(SingleAdapter):
    """Output c of the network, z_c, becomes z_c * (1 + a_c) + b_c; phi is [a, b], one of each per output unit.

    The number of outputs is that of the example given to `adapt`, or else of the last linear or convolutional layer.

    Attributes:
        scale: Whether phi contains the scales a.
        shift: Whether phi contains the shifts b.
        layer: Name of the layer that produces the output and takes the affine map in when the adapter is merged;
            the last one if None.

    Example:
        >>> from metricopt.adapters import adapt
        >>> model = adapt(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), OutputAffine())
        >>> model.dim, model.shift_coordinates
        (6, slice(3, 6, None))
    """

    scale: bool = True
    shift: bool = True
    layer: str | None = None

    def __post_init__(self) -> None:
        if not (self.scale or self.shift):
            raise AdapterError("OutputAffine has neither scale nor shift; expected one of them to be True")

    def bind(self, found: Survey, generator: Generator) -> "OutputModulation":  # noqa: ARG002
        """Its modulation of the network that was surveyed."""
        kinds = LINEAR + CONVOLUTION
        sites = found.of_kind(kinds) if self.layer is None else named_sites(found, (self.layer,), kinds)
        head = sites[-1] if sites else None
        outputs, axis, head = _outputs(found, head)
        return OutputModulation(self, outputs, axis, head.name if head else None)


# Called, not decorating: the registry's decorator would hide the class's own arguments from type checkers.
ADAPTERS.add("output_affine")(OutputAffine)


class OutputModulation(Modulation):
    """The network's output scaled and shifted.

    Attributes:
        outputs: Number of output units.

    Example:
        >>> from metricopt.adapters import adapt
        >>> model = adapt(nn.Linear(4, 3), OutputAffine(scale=False))
        >>> model.modulations[0].outputs
        3
    """

    def __init__(self, spec: OutputAffine, outputs: int, axis: int, head: str | None) -> None:
        super().__init__()
        self.dim = outputs * (spec.scale + spec.shift)
        self.outputs = outputs
        self.shifts = slice(self.dim - outputs, self.dim) if spec.shift else None
        self._spec = spec
        self._axis = axis
        self.head = head

    def hooks(self, phi: Tensor) -> dict[str, Hook]:  # noqa: ARG002
        """None: it acts on the network's output."""
        return {}

    def on_output(self, phi: Tensor, output: Any) -> Tensor:
        """The output, scaled and shifted along its axis of units."""
        if not isinstance(output, Tensor):
            raise AdapterError(f"the network gave a {type(output).__name__}; OutputAffine expects one tensor: wrap it")
        axis = -1 if _squeezed(output, self.outputs, self._axis) else _axis_of(output, self._axis)
        if not _fits(output, self.outputs, self._axis):
            raise AdapterError(
                f"the network's output {tuple(output.shape)} has {output.shape[axis]} units on axis {axis}, but "
                f"OutputAffine was made for {self.outputs}; give adapt(..., example=) a batch of inputs"
            )
        return modulated(output, self._affine(phi), axis)

    def fold(self, phi: Tensor, net: nn.Module) -> None:
        """Scale and shift the output of the last layer."""
        if self.head is None:
            raise AdapterError(
                "no linear or convolutional layer produces the network's output, so OutputAffine cannot be merged into "
                "one; use the adapted model as it is"
            )
        fold_affine(net.get_submodule(self.head), self._affine(phi))

    def _affine(self, phi: Tensor) -> Affine:
        nothing = torch.zeros(self.outputs).to(phi)
        return Affine(
            phi[: self.outputs] if self._spec.scale else nothing,
            phi[-self.outputs :] if self._spec.shift else nothing,
        )


def _outputs(found: Survey, head: Site | None) -> tuple[int, int, Site | None]:
    """Number of output units, their axis, and the layer they come from."""
    if isinstance(found.output, Tensor):
        return _probed(found.output, head)
    if head is None or found.output is not None:
        raise AdapterError(
            f"the number of output units is unknown (layers: {listing(found)}; output of the example: "
            f"{type(found.output).__name__}); give adapt(..., example=) a batch the network turns into one tensor"
        )
    return head.channels, head.axis, head


def _probed(output: Tensor, head: Site | None) -> tuple[int, int, Site | None]:
    if output.ndim < 2:
        return 1, -1, head if head is not None and head.channels == 1 else None
    if head is not None and _fits(output, head.channels, head.axis):
        return head.channels, head.axis, head
    # Behind (n, units) torch's losses expect further axes: (n, units, height, width).
    return output.shape[1], 1, None


def _fits(output: Tensor, outputs: int, axis: int) -> bool:
    return _squeezed(output, outputs, axis) or output.shape[_axis_of(output, axis)] == outputs


def _squeezed(output: Tensor, outputs: int, axis: int) -> bool:
    return outputs == 1 and output.ndim <= abs(axis)


def _axis_of(output: Tensor, axis: int) -> int:
    # A convolution whose maps are averaged gives (n, units): scale and shift commute with the mean.
    return axis if output.ndim > 2 and output.ndim >= abs(axis) else -1
