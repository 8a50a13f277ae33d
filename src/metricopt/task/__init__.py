"""The problem: a loss and a metric as functions of a population of phi."""
