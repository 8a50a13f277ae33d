"""Metrics computed elsewhere: by a command or by a server."""

from metricopt.metrics.external.metrics import CommandMetric, HttpMetric

__all__ = ["CommandMetric", "HttpMetric"]
