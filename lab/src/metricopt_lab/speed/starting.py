"""Figure (g): how long it takes until anything happens at all."""

import subprocess
import sys

import numpy as np

from metricopt_lab.speed.figures import FIGURES, Effort, Figure
from metricopt_lab.speed.timing import children_seconds, quartiles

_PUBLIC = "import torch, metricopt as mo; [getattr(mo, name) for name in mo.__all__]"


@FIGURES.add("g")
def starting(effort: Effort) -> list[Figure]:
    """Seconds of computing to import the package, and of `metricopt --help`.

    Example:
        >>> len(starting(Effort(repeats=1, quick=True)))
        3
    """
    rounds = max(1, effort.repeats // 3)
    torch, package, public, listing = ([] for _ in range(4))
    for _ in range(rounds):
        torch.append(_seconds("-c", "import torch"))
        package.append(_seconds("-c", "import torch, metricopt"))
        public.append(_seconds("-c", _PUBLIC))
        listing.append(_seconds("-m", "metricopt", "--help"))
    note = "computing time of a new process, user and system"
    bounds: list[tuple[str, np.ndarray, float | None]] = [
        ("seconds to import metricopt on top of torch", np.array(package) - np.array(torch), 0.3),
        ("seconds to import every public name on top of torch", np.array(public) - np.array(torch), None),
        ("seconds of metricopt --help in all", np.array(listing), 1.0),
    ]
    return [Figure("g", what, *quartiles(taken), rounds, target, note=note) for what, taken, target in bounds]


def _seconds(*arguments: str) -> float:
    before = children_seconds()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return children_seconds() - before
