"""Which classes won and which lost on held-out data."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from metricopt.report.figure import Figure, legend
from metricopt.report.run import Run
from metricopt.report.svg import Frame, drawing, text
from metricopt.report.words import plural

MOST = 20
"""Classes shown; those with most changes first."""


@dataclass(frozen=True)
class ClassChange:
    """What became of the examples of one class.

    Attributes:
        name: Of the class.
        examples: How many held-out examples it has.
        right_before: How many the original gets right.
        won: Wrong before, right now.
        lost: Right before, wrong now.
    """

    name: str
    examples: int
    right_before: int
    won: int
    lost: int

    @property
    def right_after(self) -> int:
        """How many the proposal gets right."""
        return self.right_before + self.won - self.lost


def class_changes(run: Run) -> list[ClassChange]:
    """The changes by class, as the comparison recorded them; none where it did not."""
    recorded = run.accepted.get("changes")
    if not isinstance(recorded, Mapping):
        return []
    columns = [recorded.get(name) for name in ("classes", "examples", "right_before", "won", "lost")]
    if not all(isinstance(column, list) for column in columns):
        return []
    return [
        ClassChange(str(name), *(int(count) for count in counts))
        for name, *counts in zip(*columns, strict=False)
        if all(isinstance(count, int) for count in counts)
    ]


def class_figure(run: Run) -> Figure | None:
    """Bars to the right for examples won, to the left for examples lost."""
    changes = sorted(class_changes(run), key=lambda each: -(each.won + each.lost))[:MOST]
    most = max((max(each.won, each.lost) for each in changes), default=0)
    if most == 0:
        return None

    def draw(width: float) -> str:
        row = 34.0
        frame = Frame(
            width, row * len(changes) + 8, x=(-1.25 * most, 1.25 * most), y=(0, 1), left=0.16 * width, bottom=0
        )
        marks = [_bars(frame, each, row * i + 4) for i, each in enumerate(changes)]
        middle = float(frame.across(0))
        marks.append(f'<path class="axis" d="M{middle:.1f} 0V{frame.height:g}"/>')
        return drawing(frame, marks, label="Examples won and lost by class")

    entries = [
        ("lost: right before, wrong now", "bar lost", "area"),
        ("won: wrong before, right now", "bar won", "area"),
    ]
    return Figure("classes", f"Who won and who lost on {run.judged_on} data", draw, _reading(run), legend(entries))


def _bars(frame: Frame, change: ClassChange, top: float) -> str:
    left, middle, right = (float(frame.across(x)) for x in (-change.lost, 0, change.won))
    height, base = 22, top + 17
    return (
        text(frame.left - 10, base, f"class {change.name}", "tick", anchor="end")
        + f'<rect class="bar lost" x="{left:.1f}" y="{top:g}" width="{middle - left:.1f}" height="{height}"/>'
        + f'<rect class="bar won" x="{middle:.1f}" y="{top:g}" width="{right - middle:.1f}" height="{height}"/>'
        + text(left - 5, base, f"{change.lost:,}", "tick", anchor="end")
        + text(right + 5, base, f"{change.won:,}", "tick", anchor="start")
    )


def _reading(run: Run) -> str:
    changes = class_changes(run)
    won, lost = sum(each.won for each in changes), sum(each.lost for each in changes)
    examples = sum(each.examples for each in changes)
    gainer = max(changes, key=lambda each: each.won - each.lost)
    loser = min(changes, key=lambda each: each.won - each.lost)
    said = f"Of {_counted(run, examples)}, {won:,} became right and {lost:,} became wrong"
    parts = [f"class {each.name} {_net(each)}" for each in (gainer, loser) if each.won != each.lost]
    return f"{said}; {' and '.join(dict.fromkeys(parts))}." if parts else f"{said}."


def _counted(run: Run, examples: int) -> str:
    """So many examples or, of detectors, true boxes."""
    if run.accepted["changes"].get("unit") == "true box":
        return f"{plural(examples, 'true box', 'true boxes')} of {run.judged_on} images"
    return plural(examples, f"{run.judged_on} example")


def _net(change: ClassChange) -> str:
    net = change.won - change.lost
    return f"{'gained' if net > 0 else 'lost'} {abs(net):,} on balance"


def changes_table(run: Run) -> tuple[list[str], list[list[Any]]]:
    """Head and rows of the same as a table."""
    head = ["class", "examples", "right before", "right after", "won", "lost", "net"]
    rows = [
        [each.name, each.examples, each.right_before, each.right_after, each.won, each.lost, each.won - each.lost]
        for each in class_changes(run)
    ]
    return head, rows
