"""Where a number came from: versions, machine, moment."""

import platform
from datetime import UTC, datetime
from importlib.metadata import version

import torch

from metricopt import __version__


def provenance() -> dict[str, str | int]:
    """Versions of what computes, the kind of machine, the number of threads and the time.

    Example:
        >>> provenance()["metricopt"] == __version__
        True
    """
    return {
        "metricopt": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": version("numpy"),
        "scikit-learn": version("scikit-learn"),
        "machine": f"{platform.system()} {platform.machine()}",
        "threads": torch.get_num_threads(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }
