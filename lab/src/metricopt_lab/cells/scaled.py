"""Experiments that `metricopt run` knows by name and runs at a scale, from seconds to the paper's."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from metricopt.core.errors import UnknownNameError
from metricopt.core.registry import Registry
from metricopt_lab.cells.cell import ScaledCell
from metricopt_lab.cells.experiment import Experiment, Ground
from metricopt_lab.cells.settings import Settings, chosen
from metricopt_lab.cells.versions import version_of


@dataclass(frozen=True)
class ScaledExperiment(Experiment[ScaledCell, Ground]):
    """A table, a figure or a study.

    Attributes:
        settings: Seeds, scale and data; refused if the experiment has no such scale or data, or no choice of data.
        scales: Names of the sizes it can be run at.
        needs_cifar10: Whether it works on CIFAR-10, which not everybody has.
        data_kind: What a name in `settings.data` is.

    Example:
        >>> from metricopt_lab.cells import experiments
        >>> experiments()["table2"](Settings(data=("nonsense",)))
        Traceback (most recent call last):
        metricopt.core.errors.UnknownNameError: table2 has no choice of data, and nonsense was asked for; leave it out
    """

    settings: Settings
    scales: ClassVar[tuple[str, ...]]
    needs_cifar10: ClassVar[bool] = False
    data_kind: ClassVar[str] = "data set"

    def __post_init__(self) -> None:
        chosen([self.settings.scale], self.scales, "scale")
        known, asked = self.known_data(), self.settings.data
        if asked and not known:
            found = ", ".join(asked)
            raise UnknownNameError(f"{self.name} has no choice of data, and {found} was asked for; leave it out")
        chosen(asked, known, self.data_kind)

    @property
    def name(self) -> str:
        """Its name in the registry."""
        return next(name for name, one in EXPERIMENTS.items() if isinstance(self, one))

    def known_data(self) -> Sequence[str]:
        """Names that `settings.data` may have at the scale; none if there is nothing to choose."""
        return ()

    def usual_data(self) -> Sequence[str]:
        """Those that are run if none is named."""
        return self.known_data()

    def data(self) -> list[str]:
        """Those that are run."""
        return chosen(self.settings.data or self.usual_data(), self.known_data(), self.data_kind)

    def version_of(self, method: str) -> int:
        """That of a rival of this name, or else of the search."""
        return version_of(method)

    def every_method(self, network: str, metric: str, methods: Sequence[str]) -> list[ScaledCell]:
        """A cell for each of the methods and each seed, by one metric of one plainly trained network."""
        return [
            ScaledCell(self.settings.scale, network, "plain", seed, metric, method)
            for seed in range(self.settings.seeds)
            for method in methods
        ]


EXPERIMENTS: Registry[type[ScaledExperiment]] = Registry("experiment")
"""The experiments by name, as far as their modules have been imported: see `experiments`."""
