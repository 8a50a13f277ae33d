"""What the laboratory adds to `metricopt list`."""

from metricopt.cli.listing import Lines, first_line


def networks() -> Lines:
    """The networks, each with a line about it."""
    from metricopt_lab.networks import MODELS

    return [(name, first_line(model)) for name, model in MODELS.items()]


def data() -> Lines:
    """The data sets."""
    from metricopt_lab.data import DATASETS

    return [(name, first_line(data)) for name, data in DATASETS.items()]


def rivals() -> Lines:
    """The rivals."""
    from metricopt_lab.rivals import BASELINES
    from metricopt_lab.rivals.published import PUBLISHED
    from metricopt_lab.rivals.weights import WEIGHT_RIVALS

    trained = [(name, f"{rival.about} (of the paper's tables)") for name, rival in PUBLISHED.items()]
    weights = [(name, f"{rival.about} (moves the weights)") for name, rival in WEIGHT_RIVALS.items()]
    return [*((name, rival.about) for name, rival in BASELINES.items()), *trained, *weights]


def problems() -> Lines:
    """The problems of the quality benchmark."""
    from metricopt_lab.problems.zoo import PROBLEMS

    return [(name, spec.about) for name, spec in PROBLEMS.items()]


def experiments() -> Lines:
    """The tables and figures."""
    from metricopt_lab.cells import experiments

    return [(name, first_line(experiment)) for name, experiment in experiments().items()]
