"""Keep a result or return the original: one way to decide, used by everyone."""
