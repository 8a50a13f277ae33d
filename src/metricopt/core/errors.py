"""Everything metricopt raises or warns about.

Each class is also the builtin it resembles, so callers may catch either.

Example:
    >>> try:
    ...     raise DataError("there are no examples; expected at least one row")
    ... except ValueError as error:
    ...     isinstance(error, MetricOptError)
    True
"""


class MetricOptError(Exception):
    """Base of every error raised on purpose by metricopt."""


class MetricError(MetricOptError, ValueError):
    """The metric is described wrongly, raised, or returned something that is not a number within its bounds."""


class ObservationError(MetricOptError, ValueError):
    """There are too few usable metric observations to go on."""


class BudgetError(MetricOptError, ValueError):
    """More metric queries are asked for than were granted, or the plan does not fit the grant."""


class PlanError(MetricOptError, RuntimeError):
    """More calls of a metric would be made than the plan of the run says: a mistake of this library."""


class UnrollError(MetricOptError, ArithmeticError):
    """Finetuning by a learned optimizer left the numbers there are, or does not fit into memory."""


class AdapterError(MetricOptError, ValueError):
    """The adapter does not fit the network."""


class DataError(MetricOptError, ValueError):
    """Data are missing, damaged, of the wrong shape, or shared between sets that must be apart."""


class FileFormatError(MetricOptError, ValueError):
    """A saved file is damaged, of another version, or belongs to another model."""


class UnknownNameError(MetricOptError, LookupError):
    """No component of that name is registered."""


class WorkerError(MetricOptError, RuntimeError):
    """Workers cannot be had, or do not take what they are given."""


class MetricOptWarning(UserWarning):
    """Base of every warning issued by metricopt."""


class FlatValueWarning(MetricOptWarning):
    """The value function tells nothing about the metric; finetuning with it would do nothing."""


class MetricFailureWarning(MetricOptWarning):
    """One metric query failed; it was counted, and the run went on without its answer."""


class MergeWarning(MetricOptWarning):
    """An adapter could not be folded into weights: what `merge` gives computes it instead."""


class SuspicionWarning(MetricOptWarning):
    """Something the metric, a constraint or the plan says can hardly be meant."""
