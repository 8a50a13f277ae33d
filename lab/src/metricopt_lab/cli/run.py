"""`metricopt run`."""

from pathlib import Path
from typing import Annotated

import typer

from metricopt.cli.output import Json, deliver, writable_folder


def run_command(
    name: Annotated[str, typer.Argument(metavar="EXPERIMENT", help="See `metricopt list experiments`.")],
    seeds: Annotated[int, typer.Option(help="How many seeds: 0 .. N-1.")] = 5,
    scale: Annotated[
        str,
        typer.Option(help="smoke (seconds, to see that it runs), small (minutes), or paper (all rows, 500 tasks)."),
    ] = "small",
    data: Annotated[
        str,
        typer.Option(
            metavar="A,B", help="Only these data sets, networks or problems of the experiment, if it has several."
        ),
    ] = "",
    methods: Annotated[
        str, typer.Option(metavar="A,B", help="Measure only these methods; records of the others stay as they are.")
    ] = "",
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the records; by default runs/EXPERIMENT-SCALE.", callback=writable_folder),
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes, with one thread each.")] = 2,
    fresh: Annotated[
        bool, typer.Option("--fresh/--resume", help="Measure everything again, or only what OUT lacks.")
    ] = False,
    json: Json = None,
) -> None:
    """Run an experiment of the paper, ours beside the published numbers.

    Every cell (data, sampling, seed, metric, method) is one line of OUT/EXPERIMENT.jsonl. A run that was stopped goes
    on where it was; cells that are there are not measured again, unless their method has another version by now. The
    table is printed and written to OUT/EXPERIMENT.md.

    **table3**: error, Jaccard and F on A9A and CoverType. Methods: cross-entropy, Lovász, cost-sensitive,
    loss only, loss with dense evaluation, post-shift, random search, CMA-ES, SL, MetricOpt as in the paper and to its
    letter, MetricOpt.

    **table1**, **table2**: error rate of ResNet-32 and AUCPR of a small network on CIFAR-10, with losses made for the
    metric, bias and temperature tuning, CMA-ES, MetricOpt over SGD and Adam, MetricOpt. **figure3**, **figure4**,
    **figureS2**, **figureS4**: the paper's studies there. Plots are drawn to OUT. At scale paper a GPU is used if there
    is one.

    **table4**: value functions carried to NASNet-A on Tiny ImageNet from CIFAR-10 and from ResNet-18, beside losses,
    and the second run; it takes networks that `metricopt pretrain` left in METRICOPT_CACHE. **transfer**: queries that
    a search saves by what another one has learnt.

    **table5**: recall of unseen classes (Omniglot). **table6**, **figureS3**: AP50 of a detector (BCCD). **tableS1**:
    the learned optimizer on Tiny ImageNet. **paper-recipe**: what it takes for the paper's recipe to work;
    **paper-rates**: the same by the rate of its trajectories. **rival-paces**: the rates and steps of the paper's
    rivals. **learned-attempts**, **ablation**, **weights-ablation**: what was tried. **value-health**: whether value
    functions tell anything about the metric, with the remedy if not.

    CoverType and CIFAR-10 are downloaded once, or read from the folder that METRICOPT_DATA names; Omniglot, BCCD, VOC
    and Tiny ImageNet you bring there (CONTRIBUTING.md says under which names).

    Examples:

        metricopt run table3 --seeds 1 --scale smoke --out runs/try

        metricopt run table3 --seeds 5 --out runs/table3 --json runs/table3.json

        metricopt run value-health --seeds 1 --data a9a,covtype7

        metricopt run table2 --scale small --out runs/table2
    """
    from metricopt.run.progress import Progress
    from metricopt_lab.cells import Settings, experiments, run

    settings = Settings(seeds, scale, tuple(part for part in data.split(",") if part))
    some = tuple(part for part in methods.split(",") if part)
    experiment = experiments()[name](settings)
    folder = Path("runs", f"{name}-{scale}") if out is None else out
    with Progress(name) as progress:

        def watch(count: int, total: int, last: str) -> None:
            progress.total = total
            progress.update(count, last)

        done = run(experiment, folder, workers=workers, fresh=fresh, methods=some, watch=watch)
    if done.failures:
        raise done.failures[0].error
    kept = len(done.records) - done.measured
    deliver(f"{done.text}\n{done.measured} cells measured, {kept} kept; in {folder}", done.records, json)
