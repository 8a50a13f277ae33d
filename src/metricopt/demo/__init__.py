"""The demo: the case the library is for, and the case where a threshold does as well, on data that come with it."""

from metricopt.demo.output import write_demo
from metricopt.demo.play import Demo, Played, demo
from metricopt.demo.text import demo_text

__all__ = ["Demo", "Played", "demo", "demo_text", "write_demo"]
