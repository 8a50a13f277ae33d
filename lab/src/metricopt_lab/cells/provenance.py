"""Where a number came from: versions, machine, moment."""

import platform
import re
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

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
        "processor": processor(),
        "threads": torch.get_num_threads(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def processor() -> str:
    """Model and instructions of the processor, on which the last bits depend: those of networks trained here too.

    Example:
        >>> torch.backends.cpu.get_cpu_capability() in processor()
        True
    """
    listing = Path("/proc/cpuinfo")
    text = listing.read_text(encoding="utf-8", errors="replace") if listing.exists() else ""
    named = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    model = named[1].strip() if named else platform.processor()
    return f"{model} {torch.backends.cpu.get_cpu_capability()}".strip()
