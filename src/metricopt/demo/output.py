"""What the demo leaves in its folder: numbers, a picture, and the report of its first act."""

from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from metricopt.core.writing import write_json
from metricopt.demo.picture import draw_progress
from metricopt.demo.play import Demo, Played
from metricopt.report import read_run, write_report
from metricopt.run.events import NAME, EventLog


def write_demo(done: Demo, out: Path) -> str:
    """Write `result.json`, `progress.png` and, from the events in `out`, `report.html`; what was written, in words."""
    written = [out / "result.json"]
    write_json(written[0], done.to_dict())
    if (out / done.first.act.key / NAME).exists():
        written.append(_report(done.first, out))
    if find_spec("matplotlib") is None:
        return f"{_listed(written)}\nNo picture was drawn: matplotlib is missing; pip install 'metricopt-torch[plots]'."
    written.append(out / "progress.png")
    draw_progress(done, written[-1])
    return _listed(written)


def _report(played: Played, out: Path) -> Path:
    with EventLog(out / played.act.key / NAME) as log:
        log.write("rival", _rival(played))
        log.write("test", asdict(played.gain))
    return write_report(read_run(out), out / "report.html")


def _rival(played: Played) -> dict[str, Any]:
    # Tuning has no rows to set aside for a decision, so its curve is about more rows than the search's.
    name = f"{played.act.rival} on all validation rows"
    return {"name": name, "values": played.tuned.best[: len(played.best)], "test": asdict(played.difference)}


def _listed(paths: list[Path]) -> str:
    return f"Written: {', '.join(str(path) for path in paths)}"
