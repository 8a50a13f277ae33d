"""Table 6 of the paper: AP50 of a Faster R-CNN."""
