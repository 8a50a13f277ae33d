"""Table 5: image retrieval."""
