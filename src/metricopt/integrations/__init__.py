"""metricopt in the libraries people work in; each module needs one extra and is imported when it is used."""
