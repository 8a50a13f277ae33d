"""What one search teaches the next: value functions that carry over to other data, networks and metrics."""

from metricopt.search.transfer.carried import KINDS, CarriedValue, Kind
from metricopt.search.transfer.file import load_carried, save_carried

__all__ = ["KINDS", "CarriedValue", "Kind", "load_carried", "save_carried"]
