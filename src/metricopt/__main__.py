"""`python -m metricopt`: the same as the command."""

from metricopt.cli import main

if __name__ == "__main__":
    main()
