"""A traced network in two parts: what no phi can change, computed once, and what is left for each phi."""
