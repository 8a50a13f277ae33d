"""What everything stands on: errors, random streams, registries, records, files and trees of tensors."""
