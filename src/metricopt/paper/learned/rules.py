"""Update rules that weights in files may belong to, by name."""

from typing import Any

from metricopt.core.registry import Registry

RULES: Registry[type[Any]] = Registry("update rule")
"""Rules by name; a rule is a frozen dataclass of plain facts and has what `signals.Rule` says."""
