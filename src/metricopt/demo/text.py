"""What the demo says when it is done, to be read in ten seconds."""

from metricopt.acceptance.comparison import Comparison
from metricopt.demo.play import Demo, Played


def demo_text(done: Demo) -> str:
    """Both acts in plain words, and what they mean together."""
    return "\n".join(
        [
            _act(1, done.first),
            "",
            _act(2, done.second),
            "",
            _moral(done),
            f"{done.seconds:.0f} s in all, training included.",
        ]
    )


def _act(number: int, played: Played) -> str:
    act, metric = played.act, played.act.metric.name
    rows = [
        ("as trained", played.gain.before, ""),
        (act.rival, played.tuning_gain.after, f"{len(played.tuned.best):,} calls of the metric"),
        ("metricopt", played.gain.after, _calls(played)),
    ]
    return "\n".join(
        [
            f"Act {number}: {act.title}.",
            act.story,
            f"{metric} there, on {played.gain.examples:,} test rows that nothing was chosen on:",
            "",
            *(f"  {name:<18}{value:.3f}   {said}".rstrip() for name, value, said in rows),
            f"  {verdict(played.difference, act.rival)}",
        ]
    )


def _calls(played: Played) -> str:
    calls, decision = played.found["calls"], played.found["decision_calls"]
    kept = "" if played.found["accepted"] else "; no sure gain, so the original is returned"
    return f"{calls:,} calls: {calls - decision:,} to search, {decision:,} to decide{kept}"


def verdict(difference: Comparison, rival: str) -> str:
    """Which of the two is better, as far as the interval tells.

    Example:
        >>> gain = Comparison(0.43, 0.54, (0.09, 0.13), level=0.9, confidence=1.0, resamples=500, examples=6000)
        >>> verdict(gain, "bias tuning")
        'metricopt is better than bias tuning: by +0.090 to +0.130 (90% interval)'
    """
    low, high = difference.interval
    between = f"{low:+.3f} to {high:+.3f} ({difference.level:.0%} interval)"
    if low > 0:
        return f"metricopt is better than {rival}: by {between}"
    if high < 0:
        return f"{rival} is better than metricopt: the difference is {between}"
    return f"a tie: metricopt minus {rival} is {between}"


def _moral(done: Demo) -> str:
    ahead, behind = done.first.difference.interval[0] > 0, done.second.difference.interval[1] < 0
    if ahead and not behind:
        return "Where the scores are fine and only the cut is not, a threshold does; where they are wrong, it cannot."
    return "Another seed or more queries may tell the two methods apart more clearly."
