"""What the value function forecast, and what the metric then answered."""

import numpy as np

from metricopt.core.ranks import rank_correlation
from metricopt.report.figure import Figure, legend
from metricopt.report.run import Array, Run
from metricopt.report.scale import telling_span
from metricopt.report.svg import Frame, axes, dots, drawing, line, whiskers
from metricopt.report.words import number, percent, plural


def forecast_figure(run: Run) -> Figure | None:
    """Forecasts with their uncertainty over queries, beside the answers."""
    known = known_forecasts(run)
    if len(known) < 2:
        return None
    index, forecast, std, truth = known.T
    y = telling_span(truth, sign=run.sign, include=np.quantile(forecast, [0.02, 0.98]))
    sure = np.isfinite(std).any()

    def draw(width: float) -> str:
        frame = Frame(width, 300 if width > 500 else 260, x=(0, len(run.costs) * 1.01), y=y)
        notes = [f"query {i + 1:.0f}: forecast {f:.4f}, answer {t:.4f}" for i, f, _, t in known]
        marks = [
            axes(frame, "metric queries", f"{run.metric} on the search data"),
            whiskers(frame, index + 1, forecast - 2 * std, forecast + 2 * std, kind="whisker"),
            whiskers(frame, index + 1, forecast, truth, kind="miss") if not sure else "",
            dots(frame, index + 1, forecast, ["dash-mark"] * len(known), shapes=["square"] * len(known), notes=notes),
            dots(frame, index + 1, truth, ["dot c1"] * len(known), shapes=["circle"] * len(known), notes=notes),
        ]
        return drawing(frame, marks, label="Forecasts of the value function and the answers")

    entries = [("forecast", "dash-mark", "square"), ("answer", "dot c1", "circle")]
    entries.append(("two standard deviations", "whisker", "line") if sure else ("their distance", "miss", "line"))
    title = "What the value function expected, and what came"
    return Figure("forecasts", title, draw, _reading(known), legend(entries))


def known_forecasts(run: Run) -> Array:
    """Query number from 0, forecast, its deviation, and answer in natural units, (n, 4), of answered queries."""
    rows = run.forecasts[run.forecasts[:, 0] < len(run.costs)]
    index = rows[:, 0].astype(int)
    table = np.stack([rows[:, 0], run.natural(rows[:, 1]), rows[:, 2] * run.unit, run.values[index]], 1)
    return table[np.isfinite(table[:, [1, 3]]).all(1)]


def unseen_forecasts(run: Run) -> Array:
    """The same columns for a value network judged on paths it never saw, in the order of those observations."""
    if run.unseen is None:
        return np.zeros((0, 4))
    predicted, costs = (run.natural(each) for each in run.unseen)
    table = np.stack([np.arange(float(len(costs))), predicted, np.full(len(costs), np.nan), costs], 1)
    return table[np.isfinite(table[:, [1, 3]]).all(1)]


def _reading(known: Array) -> str:
    _, forecast, std, truth = known.T
    error, spread = float(np.abs(forecast - truth).mean()), float(truth.std())
    said = (
        f"Over {plural(len(known), 'forecast')} the value function was off by {number(error)} on average, while the "
        f"answers themselves vary by {number(spread)} (standard deviation)"
    )
    sure = np.isfinite(std)
    if sure.any():
        inside = float((np.abs(forecast - truth) <= 2 * std)[sure].mean())
        said += f"; {percent(inside)} of the answers lie within two of its own standard deviations (ideal: 95%)"
    return f"{said}."


def agreement_figure(run: Run) -> Figure | None:
    """Forecast against answer, one mark a query; on the diagonal they agree."""
    known = known_forecasts(run)
    known = known if len(known) else unseen_forecasts(run)
    if len(known) < 3:
        return None
    index, forecast, _, truth = known.T
    both = telling_span(np.concatenate([truth, forecast]), sign=run.sign)

    def draw(width: float) -> str:
        frame = Frame(width, min(0.9 * width, 440), x=both, y=both)
        late = index >= np.median(index)
        notes = [f"{i + 1:.0f}: forecast {f:.4f}, answer {t:.4f}" for i, f, _, t in known]
        inside = np.clip(truth, *both)
        kinds = ["dot c1" if each else "dot c0" for each in late]
        shapes = ["square" if each else "circle" for each in late]
        marks = [
            axes(frame, f"{run.metric} answered", f"{run.metric} forecast"),
            line(frame, np.array(both), np.array(both), "dashed"),
            dots(frame, inside, forecast, kinds, shapes=shapes, notes=notes),
        ]
        return drawing(frame, marks, label="Forecast against answer")

    entries = [
        ("first half", "dot c0", "circle"),
        ("second half", "dot c1", "square"),
        ("agreement", "dashed", "dash"),
    ]
    reading = _rank_reading(forecast, truth) + _overall(run, rank_correlation(forecast, truth))
    return Figure("agreement", "Value predicted against true", draw, reading, legend(entries))


def _overall(run: Run, here: float) -> str:
    """Why the result speaks of another correlation, if it does."""
    overall = run.result.get("rank_correlation")
    if not isinstance(overall, float) or f"{overall:.2f}" == f"{here:.2f}":
        return ""
    return (
        f" Over all queries, each left out of the value function that is asked about it, it is {overall:.2f}: good and "
        f"bad ones lie further apart there than among its own proposals, which were all meant to be good."
    )


def _rank_reading(forecast: Array, truth: Array) -> str:
    found = rank_correlation(forecast, truth)
    if found >= 0.5:
        meaning = "it told good from bad proposals before paying for them"
    elif found >= 0.2:
        meaning = "it told good from bad only roughly"
    else:
        meaning = "it could not tell good from bad proposals, so the search was little better than chance"
    said = f"Forecasts made before asking and the answers have a rank correlation of {found:.2f}"
    return f"{said} (1 is perfect, 0 is none): {meaning}."
