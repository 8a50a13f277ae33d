"""Table 4 of the paper: from CIFAR-10 and from a smaller network to NASNet-A, and the second run."""
