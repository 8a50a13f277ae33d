"""`python -m metricopt`: the same as the command."""

from metricopt.cli.app import main

if __name__ == "__main__":
    main()
