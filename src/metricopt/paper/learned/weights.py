"""Weights of a learned optimizer with the rule they belong to: in files, and by name those that come with metricopt."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from pathlib import Path
from typing import Any, final

from torch import Tensor

from metricopt.core.errors import FileFormatError, UnknownNameError
from metricopt.core.files import load, save
from metricopt.paper.learned import equation_s1_rule as _equation_s1_rule  # noqa: F401  (registers our rules)
from metricopt.paper.learned import whole_rule as _whole_rule  # noqa: F401
from metricopt.paper.learned.rules import RULES
from metricopt.paper.learned.signals import Rule

_KIND, _VERSION = "learned-optimizer", 1
_WIDEST = 10_000  # units of a layer
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
        rule = _rule_of(RULES[saved.fact("kind", str)], saved.fact("rule", dict))
    except (TypeError, ValueError, LookupError) as error:
        why = " ".join(str(error).split())[:200]
        raise FileFormatError(
            f"{origin} describes a rule that this metricopt does not have ({why}); expected a known feature set: load "
            f"it with the version that wrote it"
        ) from error
    if "weights" not in saved.tensors:
        raise FileFormatError(f"{origin} has no tensor named 'weights'; the file is damaged: save it again")
    return LearnedWeights(rule, saved.tensors["weights"].float(), saved.fact("about", dict))


def _rule_of(rule: type[Any], facts: Mapping[str, Any]) -> Rule:
    """The rule that facts of a file describe; anything that its own facts could not be is a ValueError."""
    described = {name: tuple(fact) if isinstance(fact, list) else fact for name, fact in facts.items()}
    for name, usual in asdict(rule()).items():
        fact = described.get(name, usual)
        alike = type(usual) is type(fact)
        if not alike or (isinstance(fact, tuple) and not all(_plausible(one, usual[0]) for one in fact)):
            raise ValueError(f"{name} is {fact!r:.60}")
    return rule(**described)


def _plausible(fact: object, usual: object) -> bool:
    """Whether it is of the same type, and a width that memory can hold if it is one."""
    return type(fact) is type(usual) and (not isinstance(fact, int) or 0 < fact <= _WIDEST)


def shipped_optimizers() -> list[str]:
    """Names of the learned optimizers that come with metricopt.

    Example:
        >>> isinstance(shipped_optimizers(), list)
        True
    """
    return sorted(path.parent.name for path in _SHIPPED.glob(f"*/{_KIND}.json"))
