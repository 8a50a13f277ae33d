"""The command `metricopt`: `app` puts it together, each command has a file of its own."""
