"""Finetune a small adapter of a pre-trained PyTorch model until any black-box metric is better."""

__version__ = "0.1.0"
