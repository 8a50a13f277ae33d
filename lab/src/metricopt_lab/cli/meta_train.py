"""`metricopt meta-train`."""

from pathlib import Path
from typing import Annotated

import typer

from metricopt.cli.output import Json, deliver, writable_folder


def meta_train_command(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="cifar10_aucpr, cifar10_aucpr_value, cifar10_loss, cifar10_lstm.")
    ],
    out: Annotated[
        Path, typer.Option(help="Folder of the weights and of what is needed to resume.", callback=writable_folder)
    ],
    iterations: Annotated[
        int | None, typer.Option(min=1, help="Meta-updates; by default 25, of loss and lstm 15.")
    ] = None,
    scale: Annotated[str, typer.Option(help="smoke or small: how many images.")] = "small",
    json: Json = None,
) -> None:
    """Meta-train an optimizer that all coordinates share on CIFAR-10 (AUCPR, small network), as Figure 4 uses it.

    The one that sees all of phi is meta-trained by its table or figure itself.

    A meta-training that was killed goes on where it was when the same command is given again, and ends with the same
    weights, bit for bit. Each iteration unrolls 100 steps of 8 tasks with two sets of weights each.

    **OUT/learned-optimizer.json** says what the weights were trained for, with how many metric queries, and names their
    file (safetensors); `mo.LearnedOptimizer(params, Path("OUT"))` uses them.

    Examples:

        metricopt meta-train cifar10_aucpr --out optimizers/aucpr

        metricopt meta-train cifar10_loss --iterations 2 --scale smoke --out optimizers/try
    """
    from metricopt.paper.learned.settings import Iteration
    from metricopt.run.progress import Progress
    from metricopt_lab.cells import chosen
    from metricopt_lab.optimizers.trainings import TRAININGS, run_training
    from metricopt_lab.problems.cifar import CIFAR_SCALES

    chosen([name], list(TRAININGS), "meta-training")
    chosen([scale], list(CIFAR_SCALES), "scale")
    total = iterations or TRAININGS[name].settings.iterations
    with Progress(f"meta-train {name}", total=total) as progress:

        def watch(now: Iteration) -> None:
            progress.update(now.number + 1, f"meta-loss {now.objective:.3f}, {now.exploded} exploded")

        about = run_training(name, out, scale=scale, iterations=iterations, watch=watch)
    text = f"{name}: {about['tasks']} tasks, {about['queries']} metric queries, {about['exploded']} exploded unrolls"
    deliver(f"{text}\nWritten: {out / 'learned-optimizer.json'}", about, json)
