"""Table 3: A9A and CoverType."""
