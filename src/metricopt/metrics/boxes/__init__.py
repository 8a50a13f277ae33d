"""Average precision of detected boxes: which detections hit a true box, and what that is worth."""
