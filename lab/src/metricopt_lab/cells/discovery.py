"""New files are found without being listed anywhere: every module is imported that may register something."""

import importlib
import pkgutil

import metricopt_lab
from metricopt.core.registry import Registry
from metricopt_lab.cells.scaled import EXPERIMENTS, ScaledExperiment


def import_modules(package: str) -> None:
    """Import every module of a package, those of packages within it too.

    Example:
        >>> import sys
        >>> import_modules("metricopt_lab.statistics")
        >>> "metricopt_lab.statistics.paired" in sys.modules
        True
    """
    path = importlib.import_module(package).__path__
    for module in pkgutil.walk_packages(path, f"{package}."):
        importlib.import_module(module.name)


def experiments() -> Registry[type[ScaledExperiment]]:
    """The experiments by name, of whichever package of the laboratory they are.

    Example:
        >>> experiments()["table3"].__name__
        'Table3'
    """
    for part in pkgutil.iter_modules(metricopt_lab.__path__, f"{metricopt_lab.__name__}."):
        # Commands register nothing else, and are to be imported by `metricopt` alone.
        if part.ispkg and part.name != "metricopt_lab.cli":
            import_modules(part.name)
    return EXPERIMENTS
