"""Runs whose metric is a command, killed with SIGKILL at random moments and resumed: prints what came out, as JSON.

A script of its own: it forks, and a process that has run tests must not. Usage: killed_commands.py FOLDER KILLS SEED.
"""

import json
import random
import sys
import time
from functools import partial
from pathlib import Path

import torch
from tests.faults.counted import X, Y, network
from tests.faults.killing import PATIENCE, finished, killed_until_done
from torch import nn

import metricopt as mo
from metricopt.core.plain import packed
from metricopt.run.events import NAME, read_events

QUERIES = 16
# A value that any change of the predictions changes; slow enough to be under way when the run is killed.
_SCRIPT = 'printf . >> "$2"; sleep 0.03; cksum < "$1" | awk \'{print ($1 % 997) / 997}\'\n'


def metric(folder: Path) -> mo.metrics.Metric:
    script = folder / "metric.sh"
    script.write_text(_SCRIPT)
    return mo.CommandMetric(f"sh {script} {{predictions}} {folder / 'calls'}", goal="max", on="labels", name="command")


def run(folder: Path, way: str) -> None:
    settings = {"recipe": mo.Recipe(start_steps=12, candidates=40)} if way == "adapter" else {"effort": "quick"}
    mo.optimize(
        network(),
        loss=nn.functional.cross_entropy,
        metric=metric(folder),
        train=(X[:160], Y[:160]),
        val=(X[160:], Y[160:]),
        queries=QUERIES,
        run_dir=folder / "run",
        resume=True,
        **settings,
    )


def orphans(folder: Path, patience: float = 2.0) -> list[str]:
    """Command lines of processes of a killed run that are still there after some time."""
    end = time.monotonic() + patience
    while found := [line for line in _command_lines() if str(folder / "metric.sh") in line]:
        if time.monotonic() > end:
            return found
        time.sleep(0.02)
    return []


def _note(left: list[str], folder: Path) -> None:
    left += orphans(folder)


def _command_lines() -> list[str]:
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return lines


def account(folder: Path) -> dict:
    """Everything that must not depend on kills."""
    result = mo.load_result(folder / "run", network(), metric(folder), example=X[:2])
    # A command remembers its answers as long as the run lives, so that a kill may cost a call.
    numbers = {key: value for key, value in result.to_dict().items() if key not in ("seconds", "calls")}
    kinds = ("query", "incumbent", "accepted")
    events = [e for e in read_events(folder / "run" / NAME) if e["event"] in kinds]
    history = [{key: value for key, value in event.items() if key not in ("time", "extra")} for event in events]
    files = sorted(path.name for path in (folder / "run").iterdir())
    return {"phi": packed(result.model.phi), "numbers": numbers, "history": history, "files": files}


def printed(folder: Path) -> int:
    return mo.load_result(folder / "run", network(), metric(folder), example=X[:2]).ledger.calls


def main(folder: Path, kills: int, seed: int) -> None:
    torch.set_num_threads(1)
    moments, done = random.Random(seed), []
    for way in ("adapter", "weights"):
        whole = folder / way
        whole.mkdir()
        (folder / f"warm-{way}").mkdir()
        run(folder / f"warm-{way}", way)  # children then need not import what torch imports late
        began = time.monotonic()
        assert finished(partial(run, whole, way), PATIENCE)
        duration, expected = time.monotonic() - began, account(whole)
        while still := kills // 2 - sum(one["kills"] for one in done if one["way"] == way):
            broken = folder / f"{way}-{len(done)}"
            broken.mkdir()
            left: list[str] = []
            note = partial(_note, left, broken)
            count = killed_until_done(partial(run, broken, way), moments, duration, most=still, then=note)
            found = account(broken)
            calls = (broken / "calls").stat().st_size
            different = [key for key in expected if found[key] != expected[key]]
            done.append({"way": way, "kills": count, "different": different, "orphans": left, "calls": calls})
            done[-1]["lost"] = calls - printed(broken)  # a kill may swallow the call that was under way
    print(json.dumps({"kills": sum(one["kills"] for one in done), "runs": done}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
