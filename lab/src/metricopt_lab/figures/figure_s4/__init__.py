"""Figure S4: what the value function learns from, how much of it, and of which parameters."""
