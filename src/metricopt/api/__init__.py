"""The front door: `optimize` and what it gives."""
