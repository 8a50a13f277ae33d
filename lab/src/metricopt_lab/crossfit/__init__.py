"""Cross-fitted finetuning of the real weights, and rivals as strong as a practitioner's: a prototype, to be measured.

What is known of it is from development problems only (docs/crossfit.md); `optimize` does not use it yet.
"""
