"""Figure S4 as text: a table for each panel, and what becomes of the paper's observations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from metricopt_lab.cells import Record
from metricopt_lab.markdown import heading, short, spread, table
from metricopt_lab.statistics.paired import paired

PANELS: Mapping[str, Mapping[str, str]] = {
    "Images of the metric": {"default": "validation", "training-images": "training"},
    "Observations K of T": {"k-2.5": "2.5%", "default": "5%", "k-10": "10%", "k-100": "100%"},
    "Input": {"default": "FiLM", "last-biases": "last biases", "all-biases": "all biases", "last-layer": "last layer"},
    "FiLM's size d": {"d-32": "32", "d-64": "64", "default": "128", "d-256": "256", "d-512": "512"},
}
"""Names of variants, with their labels, by panel."""

COSTS = {"small_convnet": "1 - AUCPR", "resnet32": "error rate"}
"""What is lowered, by network."""

KINDS = {"guided": "guided finetuning", "search": "default search", "loss": "loss alone"}
"""Names of the methods in words."""


@dataclass(frozen=True)
class Claim:
    """An observation of the paper about a variant against the default.

    Attributes:
        variant: Its name.
        words: What the paper says.
        worse: Whether the variant is said to be worse; None if it is said to be about equal.

    Example:
        >>> CLAIMS[1].words, CLAIMS[1].worse
        ('K = 2.5% of T hurts', True)
    """

    variant: str
    words: str
    worse: bool | None


CLAIMS = (
    Claim("training-images", "training images in place of validation images barely hurt", None),
    Claim("k-2.5", "K = 2.5% of T hurts", True),
    Claim("k-10", "K = 10% of T slightly helps", False),
    Claim("k-100", "K = 100% of T helps marginally", False),
    Claim("last-biases", "biases of the last layer are not enough", True),
    Claim("all-biases", "biases of several layers are worse", True),
    Claim("last-layer", "the whole last layer fails", True),
    *(Claim(f"d-{d}", f"d = {d} does about as well as 128", None) for d in (32, 64, 256, 512)),
)
"""What the paper's supplement says of its Figure S4, of which it prints no number."""

NOTES = """Guided finetuning is the paper's method: trajectories from random phi_0, a value network, then a path from
phi = 0 led by it, of which the last point counts (Adam; Eq. 1 with lambda = 1; the network is trained offline, because
the paper's Reptile with BatchNorm gives flat functions here). The default search is this package's own, with as many
queries as guided finetuning has at K = 5%; it has no paths, so K does not concern it. Loss alone is guided finetuning's
path on cross-entropy without any metric. The search has other starts, 500 steps of cross-entropy at a higher rate, for
which loss alone is no control: what it gains is not all the metric's. Test images only report. FiLM stands with the
output affine, whose shifts are the biases of the last layer. All biases and FiLM are of the last layers only at scales
below the paper's. A unit of phi means another change for each kind of input (each adapter's own strength).

Seeds change the adapter, the split of the validation images, which training images are used, and all paths. Network
and test images are the same for all, so spreads and tests say nothing about other networks or other test images."""

INVARIANT = """AUCPR ranks the images of a class by that class's logit. A bias of the last layer shifts all of them
alike, so it cannot change this metric at all: that it fails here says nothing about value functions."""


def figure_s4_text(records: Sequence[Record]) -> str:
    """All tables and verdicts."""
    parts = [
        heading("Figure S4: ablations of the value function on CIFAR-10", records),
        NOTES,
    ]
    for network in dict.fromkeys(record["data"] for record in records):
        mine = [record for record in records if record["data"] == network]
        before = spread([record["test_before"] for record in of(mine, "default", "guided")])
        parts += [f"## {network}: {COSTS[network]} on test images, lower is better, pre-trained {before}"]
        parts += [mine[0]["problem"].partition("; FiLM")[0] + "."]
        for title, variants in PANELS.items():
            parts += [f"### {title}", _panel(mine, variants)]
        parts += ["### The paper's observations", _verdicts(mine, network)]
    return "\n\n".join(parts) + "\n"


def of(records: Sequence[Record], variant: str, kind: str) -> list[Record]:
    """Records of a variant and a method, one a seed."""
    return [record for record in records if (record["method"], record["metric"]) == (variant, kind)]


def differences(records: Sequence[Record], variant: str, kind: str) -> list[float]:
    """Cost of a variant minus that of the default on the same seed; positive is worse.

    Example:
        >>> row = {"seed": 0, "metric": "guided"}
        >>> differences([row | {"method": "default", "test_cost": 0.25}, row | {"method": "d-32", "test_cost": 0.5}],
        ...             "d-32", "guided")
        [0.25]
    """
    default, found = (_by_seed(records, name, kind) for name in ("default", variant))
    return [cost - default[seed] for seed, cost in found.items() if seed in default]


def _panel(records: Sequence[Record], variants: Mapping[str, str]) -> str:
    header = ["value", "dim phi", *KINDS.values(), "guided, against default", "rank correlation", "queries"]
    rows = []
    for variant, label in variants.items():
        guided = of(records, variant, "guided")
        costs = [of(records, variant, kind) for kind in KINDS]
        against = "—" if variant == "default" else spread(differences(records, variant, "guided"), sign=True)
        rows.append([
            label, str(guided[0]["dim"]), *(spread([record["test_cost"] for record in some]) for some in costs),
            against, spread([record["rank_correlation"] for record in guided], sign=True), str(guided[0]["queries"]),
        ])  # fmt: skip
    return table(header, rows)


def _verdicts(records: Sequence[Record], network: str) -> str:
    lines = [
        "Paired differences in cost, variant minus default, with their standard error over seeds; called worse or "
        "better if a one-sided paired t-test says so (p < .05, not corrected for the number of tests):"
    ]
    for claim in CLAIMS:
        found = [_verdict(records, claim, kind) for kind in ("guided", "search") if of(records, claim.variant, kind)]
        lines.append(f'- "{claim.words}": ' + "; ".join(found) + ".")
    text = "\n".join(lines)
    return f"{text}\n\n{INVARIANT}" if network == "small_convnet" else text


def _verdict(records: Sequence[Record], claim: Claim, kind: str) -> str:
    default, variant = (_by_seed(records, name, kind) for name in ("default", claim.variant))
    found = paired(default, variant)
    if found.seeds < 2:
        return f"{KINDS[kind]} {short(found.mean, sign=True)}, one seed tells nothing"
    seen = {"win": "worse", "tie": "no difference is resolved", "loss": "better"}[found.verdict]
    size = f"{short(found.mean, sign=True)} ± {short(found.standard_error)}"
    return f"{KINDS[kind]} {size}, {seen}: {_judged(claim, seen)}"


def _by_seed(records: Sequence[Record], variant: str, kind: str) -> dict[int, float]:
    return {record["seed"]: record["test_cost"] for record in of(records, variant, kind)}


def _judged(claim: Claim, seen: str) -> str:
    if seen == "no difference is resolved":
        return "not contradicted" if claim.worse is None else "not confirmed"
    return "confirmed" if claim.worse is not None and claim.worse == (seen == "worse") else "not confirmed"
