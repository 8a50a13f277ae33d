"""Figure 3: the ordinal term, prediction error against the final metric, ways of meta-testing."""
