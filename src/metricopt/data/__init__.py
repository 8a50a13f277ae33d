"""Data as users have it: checked once, split into sets that are apart, drawn in batches."""

from metricopt.data.images import Images, image_folder
from metricopt.data.leakage import check_apart, shared_rows

__all__ = ["Images", "check_apart", "image_folder", "shared_rows"]
