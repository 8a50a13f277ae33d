"""What Tables 1 and 2 share: the same methods on two networks for CIFAR-10."""
