"""Table S1: top-1 and top-5 accuracy, by RMSProp, by MetricOpt over SGD and learned."""
