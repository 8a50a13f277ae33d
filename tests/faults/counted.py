"""Ten kinds of metric that count their own calls, one byte of a file each, so that no kill can hide one."""

import sys
import threading
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import make_scorer
from torch import nn

import metricopt as mo

DRAW = torch.Generator().manual_seed(0)
X = torch.randn(420, 4, generator=DRAW)
Y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * torch.randn(420, generator=DRAW) > 0.8).long()


def network() -> nn.Module:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(30):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(X[:160]), Y[:160]).backward()
        optimizer.step()
    return net


def counted(calls: Path) -> None:
    with calls.open("ab") as file:
        file.write(b".")


def times(calls: Path) -> int:
    return calls.stat().st_size if calls.exists() else 0


def _right(calls: Path, truth, labels, *_groups) -> float:
    counted(calls)
    return float((np.asarray(truth) == np.asarray(labels)).mean())


def _brier(calls: Path, truth, scores) -> float:
    counted(calls)
    return float(((np.asarray(truth) - np.asarray(scores)[:, 1]) ** 2).mean())


def _margin(calls: Path, truth, logits) -> float:
    counted(calls)
    return float(np.clip((logits[:, 1] - logits[:, 0]) * (2 * truth - 1), -1, 1).mean())


def _whole(calls: Path, targets, outputs) -> float:
    counted(calls)
    return float((np.asarray(outputs).argmax(-1) == np.asarray(targets)).mean())


def _of_model(calls: Path, model, inputs, targets) -> float:
    counted(calls)
    return float((model(inputs).argmax(-1) == targets).float().mean())


def _hidden(calls: Path, truth: np.ndarray, rows, labels) -> float:
    counted(calls)
    return float((truth[np.asarray(rows)] == labels).mean())


def _erratic(calls: Path, truth, labels) -> float:
    """Every seventh call raises, the first ones excepted."""
    counted(calls)
    if times(calls) % 7 == 6:
        raise RuntimeError("busy")
    return float((truth == labels).mean())


_SCRIPT = """
import sys, time
import numpy as np
given = np.load(sys.argv[1])
open(sys.argv[2], "ab").write(b".")
time.sleep(0.005)
print((given["predictions"] == given["targets"]).mean())
"""


def command(folder: Path, calls: Path) -> mo.metrics.Metric:
    script = folder / "metric.py"
    script.write_text(_SCRIPT)
    return mo.CommandMetric(
        f"{sys.executable} {script} {{predictions}} {calls}",
        goal="max",
        on="labels",
        name="command",
        retries=1,
    )


@contextmanager
def server(calls: Path):
    """A server that counts requests; each fifth one is answered with 503, which is tried again."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            import json

            given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            counted(calls)
            busy = times(calls) % 5 == 4
            body = str(float((np.array(given["predictions"]) == np.array(given["targets"])).mean())).encode()
            self.send_response(503 if busy else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    running = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    try:
        yield mo.HttpMetric(f"http://127.0.0.1:{running.server_port}/", goal="max", on="labels", name="server")
    finally:
        running.shutdown()
        running.server_close()


def _metric(function: Callable[..., float], calls: Path, **facts) -> mo.metrics.Metric:
    return mo.Metric(partial(function, calls), name="counted", **facts)


KINDS: dict[str, Callable[[Path], mo.metrics.Metric]] = {
    "labels": lambda calls: _metric(_right, calls, on="labels", goal="max"),
    "scores": lambda calls: _metric(_brier, calls, on="scores", goal="min"),
    "logits, no bounds": lambda calls: _metric(_margin, calls, on="logits", goal="max", bounds=None),
    "whole outputs": lambda calls: _metric(_whole, calls, on="outputs", goal="max"),
    "the model": lambda calls: _metric(_of_model, calls, on="model", goal="max"),
    "declared costly": lambda calls: _metric(_right, calls, on="labels", goal="max", costly=True),
    "hidden truth": lambda calls: mo.Metric(
        partial(_hidden, calls, Y[160:].numpy()), on="labels", goal="max", name="counted", hidden=True, costly=True
    ),
    "a scorer": lambda calls: mo.Metric(make_scorer(partial(_right, calls))),
    "one that fails now and then": lambda calls: _metric(_erratic, calls, on="labels", goal="max", costly=True),
}


def run(metric, *, queries: int = 14, keep=(), way: str = "adapter", **settings):
    hidden = metric.hidden
    return mo.optimize(
        network(),
        loss=nn.functional.cross_entropy,
        metric=metric,
        train=(X[:160], Y[:160]),
        val=X[160:] if hidden else (X[160:], Y[160:]),
        queries=queries,
        keep=keep,
        progress=False,
        **({"recipe": mo.Recipe(start_steps=12, candidates=40)} if way == "adapter" else {"effort": "quick"}),
        **settings,
    )
