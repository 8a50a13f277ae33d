"""`metricopt bench`: the group that benchmarks register their commands on.

A benchmark is a file of this package that says `@bench_app.command("name")`, imports its experiment within the
function, and is named in `metricopt.cli`.
"""

import typer

bench_app = typer.Typer(
    name="bench",
    help="Benchmarks of the method against its rivals, and of its speed.",
    no_args_is_help=True,
)
