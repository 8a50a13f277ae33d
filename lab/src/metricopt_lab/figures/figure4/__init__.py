"""Figure 4: the metric along finetuning."""
