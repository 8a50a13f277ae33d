"""Optimizers that follow a value function: guided evolution strategies and their torch front."""
