"""The demo: F1 of a census-income classifier, beside threshold tuning."""
