"""Weights of a learned optimizer with the rule they belong to: in files, and by name those that come with metricopt."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from pathlib import Path
from typing import Any, final

from torch import Tensor

from metricopt.core.errors import FileFormatError, UnknownNameError
from metricopt.core.files import load, save
from metricopt.paper.learned.rules import RULES
from metricopt.paper.learned.signals import Rule

_KIND, _VERSION = "learned-optimizer", 1
_SHIPPED = Path(__file__).parent / "shipped"


@final
@dataclass(frozen=True, eq=False)
class LearnedWeights:
    """A rule and its weights.

    Attributes:
        rule: Which inputs it looks at, and how wide it is.
        weights: w_opt, (size,).
        about: For which problems it was trained, how long, and with how many metric queries.

    Example:
        >>> import torch
        >>> from metricopt.paper.learned.equation_s1_rule import MlpRule
        >>> rule = MlpRule()
        >>> LearnedWeights(rule, rule.initial(torch.Generator().manual_seed(0))).weights.shape == (rule.size,)
        True
    """

    rule: Rule
    weights: Tensor
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.weights.shape != (self.rule.size,):
            raise FileFormatError(
                f"there are {len(self.weights)} weights and the rule {self.rule} needs {self.rule.size}; "
                f"expected weights of this feature set: load them together with their rule"
            )
        if not bool(self.weights.isfinite().all()):
            raise FileFormatError("the weights of the learned optimizer are not all finite; train or load it again")


def save_optimizer(learned: LearnedWeights, folder: Path | str) -> None:
    """Save weights with their rule, one of the registered, and what is known about them.

    Example:
        >>> import tempfile, torch
        >>> from metricopt.paper.learned.equation_s1_rule import MlpRule
        >>> rule = MlpRule()
        >>> learned = LearnedWeights(rule, rule.initial(torch.Generator().manual_seed(0)), {"tasks": 8})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_optimizer(learned, folder)
        ...     again = load_optimizer(Path(folder))
        >>> torch.equal(again.weights, learned.weights), again.rule == rule, again.about
        (True, True, {'tasks': 8})
    """
    kind = next((name for name, rule in RULES.items() if type(learned.rule) is rule), None)
    if kind is None or not is_dataclass(learned.rule):
        raise FileFormatError(
            f"a {type(learned.rule).__name__} cannot be saved; expected one of the registered rules: {', '.join(RULES)}"
        )
    facts = {"kind": kind, "rule": asdict(learned.rule), "about": dict(learned.about)}
    save(folder, _KIND, facts, {"weights": learned.weights}, version=_VERSION)


def load_optimizer(origin: str | Path) -> LearnedWeights:
    """What `save_optimizer` saved in a folder (a Path), or what comes with metricopt under a name (a string).

    Example:
        >>> load_optimizer("no_such_name")
        Traceback (most recent call last):
        ...
        metricopt.core.errors.UnknownNameError: there is no learned optimizer named 'no_such_name'; known: ...
    """
    if isinstance(origin, str) and origin not in shipped_optimizers():
        raise UnknownNameError(
            f"there is no learned optimizer named {origin[:60]!r}; known: {', '.join(shipped_optimizers()) or 'none'}: "
            f"pass a Path for a folder of your own"
        )
    saved = load(_SHIPPED / origin if isinstance(origin, str) else origin, _KIND, version=_VERSION)
    try:
        described = {name: tuple(v) if isinstance(v, list) else v for name, v in saved.fact("rule", dict).items()}
        rule = RULES[saved.fact("kind", str)](**described)
    except (TypeError, ValueError, LookupError) as error:
        why = " ".join(str(error).split())[:200]
        raise FileFormatError(
            f"{origin} describes a rule that this metricopt does not have ({why}); expected a known feature set: load "
            f"it with the version that wrote it"
        ) from error
    if "weights" not in saved.tensors:
        raise FileFormatError(f"{origin} has no tensor named 'weights'; the file is damaged: save it again")
    return LearnedWeights(rule, saved.tensors["weights"].float(), saved.fact("about", dict))


def shipped_optimizers() -> list[str]:
    """Names of the learned optimizers that come with metricopt.

    Example:
        >>> isinstance(shipped_optimizers(), list)
        True
    """
    return sorted(path.parent.name for path in _SHIPPED.glob(f"*/{_KIND}.json"))
