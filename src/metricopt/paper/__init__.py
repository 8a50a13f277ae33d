"""The paper's method, each equation once: trajectories, interpolation, value network, guided evolution."""
