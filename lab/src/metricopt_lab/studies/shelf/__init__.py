"""The shelf of value functions: what makes its entries, and what they are measured to save elsewhere."""
