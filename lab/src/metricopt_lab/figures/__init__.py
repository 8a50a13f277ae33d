"""The paper's figures, measured anew."""
