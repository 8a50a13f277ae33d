"""Pictures with the true boxes that a detector found before, finds now, or both."""

from collections.abc import Mapping
from html import escape
from typing import Any, TypeGuard

from metricopt.report.figure import Figure, legend
from metricopt.report.run import Run
from metricopt.report.svg import Frame, drawing
from metricopt.report.words import plural

KINDS = {
    "won": "won: missed before, found now",
    "lost": "lost: found before, missed now",
    "kept": "found by both",
    "missed": "missed by both",
}
_GAP, _NARROW = 10.0, 500.0
_LARGEST = 1e6  # pixels


def box_figure(run: Run) -> Figure | None:
    """The images of the decision with most changes; none where these are no pictures."""
    pictures = _pictures(run)
    if not pictures:
        return None

    def draw(width: float) -> str:
        columns = 1 if width < _NARROW else 2
        side = (width - _GAP * (columns - 1)) / columns
        marks, tops = [], [0.0] * columns
        for number, picture in enumerate(pictures):
            column = number % columns
            scale = side / picture["width"]
            marks.append(_drawn(picture, column * (side + _GAP), tops[column], scale))
            tops[column] += picture["height"] * scale + _GAP
        frame = Frame(width, max(tops) - _GAP, x=(0, 1), y=(0, 1))
        return drawing(frame, marks, label="Images with true boxes that were won and lost")

    return Figure(
        "boxes",
        f"Boxes won and lost on {run.judged_on} images",
        draw,
        _reading(pictures),
        legend([(words, f"box {kind}", "area") for kind, words in KINDS.items()]),
    )


def _pictures(run: Run) -> list[Mapping[str, Any]]:
    """Those of the log that can be drawn: it may be damaged, or somebody else's."""
    changes = run.accepted.get("changes")
    pictures = changes.get("pictures") if isinstance(changes, Mapping) else None
    return [each for each in pictures if _is_picture(each)] if isinstance(pictures, list) else []


def _is_picture(picture: Any) -> bool:
    if not isinstance(picture, Mapping) or not isinstance(picture.get("jpeg"), str):
        return False
    sides, boxes = (picture.get("width"), picture.get("height")), picture.get("boxes")
    if not all(_is_number(side) and side > 0 for side in sides) or not isinstance(boxes, list):
        return False
    return all(isinstance(box, list) and len(box) == 6 and all(map(_is_number, box[:5])) for box in boxes)


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and abs(value) < _LARGEST


def _drawn(picture: Mapping[str, Any], left: float, top: float, scale: float) -> str:
    wide, high = picture["width"] * scale, picture["height"] * scale
    source = escape(f"data:image/jpeg;base64,{picture['jpeg']}")
    marks = [f'<image x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{high:.1f}" href="{source}"/>']
    # Those that changed last, so that no other box lies over them.
    for x0, y0, x1, y1, label, kind in sorted(picture["boxes"], key=lambda box: box[5] in ("won", "lost")):
        if isinstance(kind, str) and kind in KINDS:
            marks.append(
                f'<rect class="box {kind}" x="{left + x0 * scale:.1f}" y="{top + y0 * scale:.1f}" '
                f'width="{(x1 - x0) * scale:.1f}" height="{(y1 - y0) * scale:.1f}">'
                f"<title>class {int(label)}, {KINDS[kind]}</title></rect>"
            )
    return "".join(marks)


def _reading(pictures: list[Any]) -> str:
    counts = {kind: sum(box[5] == kind for picture in pictures for box in picture["boxes"]) for kind in KINDS}
    return (
        f"The {plural(len(pictures), 'image')} with most changes: {counts['won']:,} of their true boxes won, "
        f"{counts['lost']:,} lost. Of each class as many boxes count as there are true ones, those with the highest "
        f"scores."
    )
