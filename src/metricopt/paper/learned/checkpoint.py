"""A meta-training in a folder: each iteration is kept, and one that was stopped goes on to the same bits."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, final

from torch import Tensor

from metricopt.core.errors import FileFormatError
from metricopt.core.files import load, save
from metricopt.core.plain import plain
from metricopt.paper.learned.settings import Iteration, MetaTraining

KIND, VERSION = "meta-training", 2


@final
class Checkpoint:
    """The folder of one meta-training.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Checkpoint(Path(folder), MetaTraining(), seed=0).resume(print)
        []
    """

    def __init__(self, folder: Path, settings: MetaTraining, seed: int) -> None:
        self.folder = folder
        self._begun = {"settings": plain(asdict(settings)), "rule": type(settings.rule).__name__, "seed": seed}

    def write(self, history: Sequence[Iteration], tensors: dict[str, Tensor]) -> None:
        """Keep the state after the last of the iterations in place of the one before."""
        facts = {**self._begun, "history": [asdict(each) for each in history]}
        save(self.folder, KIND, facts, tensors, version=VERSION)

    def resume(self, put_back: Callable[[dict[str, Tensor]], None]) -> list[Iteration]:
        """What was done before, its state put back; nothing if the folder is new."""
        if not (self.folder / f"{KIND}.json").exists():
            return []
        saved = load(self.folder, KIND, version=VERSION)
        other = [name for name, begun in self._begun.items() if saved.facts.get(name) != begun]
        if other:
            raise FileFormatError(
                f"{self.folder} holds a meta-training with another {' and '.join(other)}; expected the one that is "
                f"asked for: give it a folder of its own, or ask for what was begun there"
            )
        try:
            history = [_iteration(each) for each in saved.fact("history", list)]
            put_back(saved.tensors)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            why = " ".join(str(error).split())[:200]
            raise FileFormatError(f"{self.folder} is damaged ({why}); expected a meta-training: begin anew") from error
        return history


def _iteration(fields: dict[str, Any]) -> Iteration:
    """JSON has no NaN: a number that is not known comes back as nothing."""
    known: dict[str, Any] = {name: float("nan") if value is None else value for name, value in fields.items()}
    return Iteration(**known)
