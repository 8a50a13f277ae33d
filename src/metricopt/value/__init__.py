"""Value functions: differentiable maps from phi to the metric's cost, how they are trained and how healthy they are."""
