"""What the demo says when it is done, in plain words."""

from metricopt.acceptance.bootstrap import Comparison
from metricopt_lab.demo.demo import Demo, Searched


def demo_text(done: Demo) -> str:
    """A short account: what was done, before and after, and whether threshold tuning does as well."""
    problem, metric = done.problem, done.problem.metric.name
    return "\n".join(
        [
            f"A network that tells from census data who earns more than $50,000 was trained by cross-entropy on\n"
            f"{len(problem.train)} rows. Its {metric} was then improved by querying it on {len(problem.search)} rows; "
            f"{len(problem.accept)} others\n"
            f"decided whether to keep the result; {len(problem.test)} test rows, used once, say what it is worth:\n",
            _lines("MetricOpt", done.metricopt, metric),
            _lines("Threshold tuning", done.threshold, metric),
            "",
            _verdict(done.difference),
            f"Rank correlation of the value function with answers held out from it: {done.rank_correlation:+.2f}.",
            f"{done.seconds:.0f} s in all, training included.",
        ]
    )


def _lines(name: str, searched: Searched, metric: str) -> str:
    test = searched.test
    low, high = test.interval
    kept = "kept" if searched.accepted else "not kept: no clear gain on the rows that decide, so the original remains"
    return (
        f"  {name:<17} {metric} {test.before:.4f} -> {test.after:.4f}   gain {low:+.4f} .. {high:+.4f} "
        f"({test.level:.0%} interval)\n"
        f"  {'':<17} {len(searched.best)} queries, {searched.seconds:.1f} s, {kept}"
    )


def _verdict(difference: Comparison) -> str:
    low, high = difference.interval
    between = f"MetricOpt minus threshold tuning: {low:+.4f} .. {high:+.4f}, {difference.level:.0%} interval"
    if low > 0:
        return f"MetricOpt is better than threshold tuning here ({between})."
    if high < 0:
        return f"Threshold tuning is better than MetricOpt here ({between})."
    return (
        f"Threshold tuning is as good here ({between}):\n"
        "where a cut on good scores is all that the metric asks for, expect a tie. MetricOpt is for the other cases."
    )
