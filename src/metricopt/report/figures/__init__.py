"""The pictures of a report, one file each: a run in, a `Figure` out, or None where the run has nothing to show."""
