"""Runs the demo with five seeds and writes what README quotes and shows: results/demo.jsonl and docs/images/demo.png.

Usage: python tools/measure_demo.py (some three minutes; then bring README's numbers up to date, which a test compares)
"""

import json
from pathlib import Path

from metricopt.core.plain import plain
from metricopt.core.writing import write_text
from metricopt.demo import demo
from metricopt.demo.picture import draw_progress

ROOT = Path(__file__).resolve().parents[1]
SEEDS = 5

if __name__ == "__main__":
    runs = [demo(seed=seed) for seed in range(SEEDS)]
    lines = [json.dumps(plain(run.to_dict()), sort_keys=True, allow_nan=False) for run in runs]
    write_text(ROOT / "results" / "demo.jsonl", "\n".join(lines) + "\n")
    draw_progress(runs[0], ROOT / "docs" / "images" / "demo.png")
