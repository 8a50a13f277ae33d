"""Figure S3 of the paper: proposals and detections before and after."""
