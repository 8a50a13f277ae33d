"""Finetuning paths: collected with a few metric observations each, then labelled at every step."""
