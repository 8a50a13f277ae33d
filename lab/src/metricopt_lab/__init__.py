"""The paper's laboratory: data sets, networks, problems, rivals, tables, figures and benchmarks of metricopt."""
