"""The pages under docs/ that show records: an introduction written by hand, and what the records make."""

from metricopt_lab.docs.pages import PAGES, write_pages

__all__ = ["PAGES", "write_pages"]
