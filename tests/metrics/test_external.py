import json
import os
import shlex
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import nn

import metricopt as mo
from metricopt.core.errors import MetricError, MetricFailureWarning
from metricopt.metrics.external.exchange import NoAnswerError, number_in
from metricopt.metrics.external.metrics import Outside

LOGITS = torch.tensor([0.5, -1.0, 2.0, 0.1])
TARGETS = torch.tensor([1, 0, 1, 0])


def script(folder, body, name="evaluate.py"):
    """A command line that runs a Python script with the path of the predictions as its argument."""
    path = folder / name
    path.write_text(f"import sys\nimport numpy as np\n{body}\n")
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(path))}"


AUROC = """
data = np.load(sys.argv[1])
scores, truth = data["predictions"], data["targets"]
pairs = scores[truth == 1][:, None] - scores[truth == 0][None, :]
print("scored", len(scores), "rows")
print(((pairs > 0) + 0.5 * (pairs == 0)).mean())
"""


def test_a_command_scores_the_predictions_it_is_given_in_a_file(tmp_path):
    metric = mo.CommandMetric(script(tmp_path, AUROC) + " {predictions}", goal="max", name="auroc")
    assert metric.value(LOGITS, TARGETS) == roc_auc_score(TARGETS, LOGITS)
    assert (metric.name, metric.on, metric.goal, metric.costly) == ("auroc", "scores", "max", True)


def test_predictions_may_be_asked_for_as_a_table_or_as_single_arrays(tmp_path):
    table = script(tmp_path, "print(open(sys.argv[1]).readline().strip() == 'targets,predictions')", "table.py")
    arrays = script(tmp_path, "print(float((np.load(sys.argv[1]) == np.load(sys.argv[2])).mean()))", "arrays.py")
    says_true = mo.CommandMetric(table + " {predictions:csv}", goal="max", on="labels")
    with pytest.raises(MetricError, match="answered 'True'; a last line with a number is expected"):
        says_true.function.retries = 0
        says_true.value(LOGITS, TARGETS)
    equal = mo.CommandMetric(arrays + " {predictions:npy} {targets}", goal="max", on="labels")
    assert equal.value(LOGITS, TARGETS) == 0.75


def test_hidden_targets_never_leave_and_rows_say_which_examples_are_meant(tmp_path):
    body = (
        "data = np.load(sys.argv[1]); assert sorted(data) == ['predictions', 'rows']; print(data['rows'].sum() / 100)"
    )
    metric = mo.CommandMetric(script(tmp_path, body) + " {predictions}", goal="max", hidden=True)
    assert metric.value(LOGITS, torch.tensor([7, 8, 9, 10])) == 0.34


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("sys.exit('no such column')", "ended with code 1 and said 'no such column' on stderr"),
        ("print('done')", "answered 'done'; a last line with a number is expected"),
        ("print('nan')", "gave nan; a finite number is expected"),
        ("print(7)", r"gave 7, outside its bounds \(0, 1\)"),
    ],
)
def test_a_command_that_fails_or_talks_nonsense_says_so_in_one_sentence(tmp_path, body, reason):
    metric = mo.CommandMetric(script(tmp_path, body) + " {predictions}", goal="max", retries=0, name="outside")
    with pytest.raises(MetricError, match=f"'outside'.*{reason}"):
        metric.value(LOGITS, TARGETS)


def test_a_command_that_hangs_is_killed_with_the_children_it_started(tmp_path):
    mark = tmp_path / "child"
    body = f"""
import os, subprocess, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
open({str(mark)!r}, "w").write(str(child.pid))
time.sleep(60)
"""
    metric = mo.CommandMetric(script(tmp_path, body) + " {predictions}", goal="max", time_limit=1.5, retries=0)
    began = time.monotonic()
    with pytest.raises(MetricError, match=r"no answer within 1.5 s; the command was killed"):
        metric.value(LOGITS, TARGETS)
    assert time.monotonic() - began < 10
    assert _gone(int(mark.read_text()))


def _gone(process):
    for _ in range(100):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        if Path(f"/proc/{process}/stat").read_text().split()[2] == "Z":
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("python evaluate.py", "no place for the predictions"),
        ("no-such-program-here {predictions}", "names no program that is found"),
        ("python 'evaluate.py {predictions}", "close its quotes"),
        ("", "names no program"),
    ],
)
def test_a_command_that_cannot_work_is_refused_at_once(command, reason):
    with pytest.raises(MetricError, match=reason):
        mo.CommandMetric(command, goal="max")


def test_attempts_are_repeated_after_growing_pauses_and_cost_no_query():
    answers, pauses = iter(["", "busy", "0.5"]), []
    outside = Outside(lambda _: next(answers), retries=2, pause=pauses.append)
    assert outside(np.zeros(1), np.zeros(1)) == 0.5
    assert (outside.calls, pauses) == (3, [0.5, 1.0])


def test_after_the_last_attempt_the_reason_of_that_one_is_given():
    outside = Outside(lambda _: "still busy", retries=1, pause=lambda _: None)
    with pytest.raises(MetricError, match=r"answered 'still busy'.*\(attempt 2 of 2\)"):
        outside(np.zeros(1), np.zeros(1))


def test_the_same_question_is_asked_once_even_by_another_process(tmp_path):
    asked = []
    for _ in range(2):
        outside = Outside(lambda question: asked.append(question.key) or "0.25", retries=0, cache=tmp_path / "cache")
        assert outside(np.zeros(2), np.array([1, 2])) == outside(np.zeros(2), np.array([1, 2])) == 0.25
    assert len(asked) == 1
    assert outside(np.zeros(2), np.array([1, 3])) == 0.25 and len(asked) == 2


def test_a_population_is_asked_about_several_at_once_up_to_the_limit():
    running, most, lock = 0, 0, threading.Lock()

    def slow(y, p):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.03)
        with lock:
            running -= 1
        return float(p.mean())

    metric = mo.Metric(slow, on="labels", goal="max", parallel=3)
    outputs = torch.where(torch.arange(4) < torch.arange(5)[:, None], 1.0, -1.0)  # (5, 4): shares 0 .. 1
    assert metric.values(outputs, TARGETS).tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert most == 3


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0.5", 0.5),
        ("loading\n0.25\n\n", 0.25),
        ("0.25\nbye", 0.25),
        ('{"value": 1}', 1.0),
        ('{\n "value": 0.5\n}', 0.5),
        ("1e-3", 0.001),
    ],
)
def test_the_answer_is_the_last_line_that_is_a_number(text, number):
    assert number_in(text) == number


@pytest.mark.parametrize("text", ["", "none", "true", '{"score": 1}', "[0.5]", '{"value": null}'])
def test_anything_else_is_no_answer(text):
    with pytest.raises(NoAnswerError, match="a last line with a number is expected"):
        number_in(text)


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.headers["Content-Type"], self.headers.get("Authorization"), body))
        status, answer = next(self.server.answers)
        if status == "drip":
            self.send_response(200)
            self.end_headers()
            for _ in range(40):
                self.wfile.write(b" ")
                self.wfile.flush()
                time.sleep(0.05)
            return
        self.send_response(status)
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.seen, server.answers = [], iter(())
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        server.url = f"http://127.0.0.1:{server.server_port}/score"
        yield server
        server.shutdown()
        thread.join()


def test_a_server_is_posted_the_arrays_as_json_with_the_given_headers(server):
    server.answers = iter([(200, '{"value": 0.75}')])
    metric = mo.HttpMetric(server.url, goal="max", on="labels", headers={"Authorization": "Bearer key"})
    assert metric.value(LOGITS, TARGETS) == 0.75
    kind, key, body = server.seen[0]
    assert (kind, key) == ("application/json", "Bearer key")
    assert json.loads(body) == {"predictions": [1, 0, 1, 1], "targets": [1, 0, 1, 0]}


def test_accidents_of_a_server_are_tried_again_and_refusals_are_not(server):
    server.answers = iter([(503, "busy"), (200, "0.5"), (403, "who are you")])
    metric = mo.HttpMetric(server.url, goal="max", encoding="npz")
    metric.function._pause = lambda _: None
    assert metric.value(LOGITS, TARGETS) == 0.5 and metric.function.calls == 2
    with pytest.raises(MetricError, match="answered 403 Forbidden and said 'who are you'"):
        metric.value(-LOGITS, TARGETS)
    assert metric.function.calls == 3


def test_a_server_that_drips_is_late_although_it_never_stops_answering(server):
    server.answers = iter([("drip", "")])
    metric = mo.HttpMetric(server.url, goal="max", time_limit=0.3, retries=0)
    with pytest.raises(MetricError, match=r"gave no answer within 0.3 s"):
        metric.value(LOGITS, TARGETS)


@pytest.mark.parametrize("url", ["file:///etc/hostname", "ftp://host/x", "localhost:80/score", ""])
def test_only_servers_can_be_asked(url):
    with pytest.raises(MetricError, match="expected http:// or https://"):
        mo.HttpMetric(url, goal="max")


def test_a_model_is_improved_by_a_metric_whose_truth_it_never_sees():
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(1400, 3, generator=draw)
    y = (x[:, 0] + 0.5 * torch.randn(1400, generator=draw) > 1).long()
    truth = y[400:].numpy()

    def f1(question):
        rows, labels = question.arrays["rows"], question.arrays["predictions"]
        return str(2 * (truth[rows] * labels).sum() / max(truth[rows].sum() + labels.sum(), 1))

    outside = Outside(f1, retries=0, hidden=True)
    metric = mo.Metric(outside, on="labels", goal="max", name="remote f1", costly=True, hidden=True)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 1))
    loss = nn.functional.binary_cross_entropy_with_logits
    result = mo.optimize(
        net,
        loss=lambda out, t: loss(out.squeeze(-1), t.float()),
        metric=metric,
        train=(x[:400], y[:400]),
        val=x[400:],
        queries=40,
        recipe=mo.Recipe(start_steps=60),
    )
    assert result.accepted and result.ledger.used == 40
    # Beyond the queries a metric that is costly is asked about all held-out rows and with each of 8 folds left out,
    # of three models: of the original, of the best shift and of the search's best.
    assert result.ledger.decisions == 3 * 9 and result.ledger.resamples == 1  # the original a second time
    assert outside.calls == result.ledger.calls == 40 + 1 + 27 - outside.recalled


def test_a_failed_query_of_a_command_is_warned_about_by_the_name_of_the_metric(tmp_path):
    metric = mo.CommandMetric(script(tmp_path, "sys.exit(3)") + " {predictions}", goal="max", retries=0, name="mine")
    with pytest.warns(MetricFailureWarning, match="'mine'.*code 3"):
        assert metric.values(LOGITS[None], TARGETS, failures="nan").isnan().all()
