"""Commands that the laboratory adds to `metricopt`: run, pretrain, meta-train, shelve, embed, docs, bench."""

import typer


def add_commands(app: typer.Typer) -> None:
    """Add the laboratory's commands; `metricopt` calls it by an entry point."""
    from metricopt_lab.cli import bench_quality, bench_speed  # noqa: F401
    from metricopt_lab.cli.bench import bench_app
    from metricopt_lab.cli.docs import docs_command
    from metricopt_lab.cli.embed import embed_command
    from metricopt_lab.cli.meta_train import meta_train_command
    from metricopt_lab.cli.pretrain import pretrain_command
    from metricopt_lab.cli.run import run_command
    from metricopt_lab.cli.shelve import shelve_command

    app.command("run")(run_command)
    app.command("pretrain")(pretrain_command)
    app.command("meta-train")(meta_train_command)
    app.command("shelve")(shelve_command)
    app.command("embed")(embed_command)
    app.command("docs")(docs_command)
    app.add_typer(bench_app)


# Whichever of the two packages is imported first, `metricopt` adds the commands before any of their modules is needed.
import metricopt.cli  # noqa: E402, F401
