"""What commands do wrong: none of it is taken for a number, outlasts the time limit, or leaves anything behind."""

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import pytest
import torch

import metricopt as mo
from metricopt.core.errors import MetricError
from metricopt.metrics.external.folders import PREFIX
from metricopt.metrics.external.listening import LONGEST
from metricopt.metrics.time_limit import MOST_HANGING, within

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="commands of a POSIX shell")

LIMIT, SLACK = 0.6, 1.0
LOGITS, TARGETS = torch.tensor([0.5, -1.0, 2.0, 0.1]), torch.tensor([1, 0, 1, 0])

FAULTS = {
    # Ends that are none
    "a number, then a failure": "echo 0.5; exit 1",
    "a number, then code 255": "echo 0.5; exit 255",
    "a failure without a word": "exit 3",
    "killed by itself": "echo 0.5; kill -9 $$",
    "a segmentation fault": "echo 0.5; kill -SEGV $$",
    "an abort": "echo 0.5; kill -ABRT $$",
    # Not SIGHUP, which is ignored wherever the tests were started by nohup.
    "an alarm": "echo 0.5; kill -ALRM $$",
    "a program that is not there": "exec /no/such/program",
    "a program that is a folder": "exec /tmp",
    "a syntax error": "if echo 0.5; then",
    "a full device": "echo 0.5 > /dev/full",
    "a limit of the processor": "ulimit -t 1; echo 0.5; while :; do :; done",
    # Silence and slowness
    "a hang": "sleep 30",
    "a number, then a hang": "echo 0.5; sleep 30",
    "half a number, then a hang": "printf 0.5; sleep 30",
    "a hang that ignores signals": "trap '' TERM INT HUP; echo 0.5; sleep 30; sleep 30",
    "a hang with its output closed": "echo 0.5; exec >&- 2>&-; sleep 30",
    "a stop": "echo 0.5; kill -STOP $$",
    "a hang of a child": "echo 0.5; (sleep 30); echo done",
    "a hang in a session of its own": "echo 0.5; setsid -w sleep 30",
    "a hang of a crowd": "for i in 1 2 3 4 5 6 7 8; do (sleep 30; echo 0.5) & done; wait",
    "a question on standard input": "read answer && echo 0.5",
    "a number a second": "while :; do echo 0.5; sleep 0.2; done",
    # Too much
    "numbers without end": "yes 0.5",
    "a line without end": "cat /dev/zero",
    "errors without end": "yes 0.5 >&2",
    "a line of two megabytes that ends in digits": "head -c 2000000 /dev/zero | tr '\\0' 1; printf 0.5",
    # Answers that are none
    **{
        f"the answer {text[:30]}": f"printf %s {shlex.quote(text)}"
        for text in (
            *("", " ", "done", "true", "None", "[0.5]", "{}", '{"score": 0.5}', '{"value": null}', '{"value": true}'),
            *('{"value": [0.5]}', '{"value": 0.1, "value": 0.9}', '{"value": 0.5', "nan", "inf", "-inf", "7", "-0.5"),
            *(
                "1" + "0" * 400,
                "0_1",
                "0,5",
                "50%",
                "0.5 0.6",
                "0x1",
                "\uff10.\uff15",
                "0.5f",
                "f1=0.5",
                "0.5.1",
                "--1",
            ),
            *('{\n"value": [\n0.5\n]\n}', "'0.5'", "1/2", "0.5e", "e5", ".", "+"),
        )
    },
    "bytes that are no text": "printf '\\377\\3760.5\\000'",
}


def asked(script, *, limit=LIMIT, **settings):
    line = f"sh -c {shlex.quote(script)} sh {{predictions}}"
    return mo.CommandMetric(line, goal="max", time_limit=limit, retries=0, name="outside", **settings)


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """Folders for questions are made here, and none may stay."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_command_gives_no_number_and_is_not_waited_for(fault):
    metric = asked(FAULTS[fault])
    began = time.monotonic()
    with pytest.raises(MetricError, match="metric 'outside'"):
        metric.value(LOGITS, TARGETS)
    assert time.monotonic() - began < LIMIT + SLACK


def test_there_are_sixty_kinds_of_faults():
    assert len(FAULTS) >= 60


def running(process):
    """Whether a process is there and no corpse."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(processes, seconds=5.0):
    end = time.monotonic() + seconds
    while any(running(each) for each in processes) and time.monotonic() < end:
        time.sleep(0.02)
    return not any(running(each) for each in processes)


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="orphans are adopted on Linux")

CHILDREN = {
    "a child": "sleep 60 & echo $! >> {mark}",
    "a child in a session of its own": "setsid sh -c 'echo $$ >> {mark}; exec sleep 60' &",
    "a grandchild whose parent is gone": "sh -c '(sleep 60 & echo $! >> {mark}) &'",
    "a daemon": 'setsid sh -c \'(trap "" HUP TERM; sh -c "echo \\$\\$ >> {mark}; exec sleep 60" >/dev/null 2>&1) &\'',
}


@linux
@pytest.mark.parametrize("child", CHILDREN)
def test_what_a_command_started_dies_with_it_and_does_not_hold_up_its_answer(tmp_path, child):
    mark = tmp_path / "mark"
    wait = f"while ! [ -s {mark} ]; do sleep 0.02; done"
    began = time.monotonic()
    assert asked(f"{CHILDREN[child].format(mark=mark)}\n{wait}; echo 0.5", limit=20).value(LOGITS, TARGETS) == 0.5
    assert time.monotonic() - began < 15
    assert gone([int(line) for line in mark.read_text().split()])


@linux
@pytest.mark.parametrize("child", CHILDREN)
def test_what_a_late_command_started_dies_with_it(tmp_path, child):
    mark = tmp_path / "mark"
    with pytest.raises(MetricError, match=r"no answer within 1.5 s; the command was killed"):
        asked(f"{CHILDREN[child].format(mark=mark)}\nsleep 60", limit=1.5).value(LOGITS, TARGETS)
    assert gone([int(line) for line in mark.read_text().split()])


@linux
def test_a_killed_run_leaves_no_command_and_no_folder(tmp_path, temporary):
    mark = tmp_path / "mark"
    script = f"echo $$ >> {mark}; setsid sh -c 'echo $$ >> {mark}; exec sleep 60' & sleep 60"
    body = f"""
        import torch, metricopt as mo
        metric = mo.CommandMetric({f"sh -c {shlex.quote(script)} sh {{predictions}}"!r}, goal="max")
        metric.value(torch.zeros(4), torch.tensor([0, 1, 0, 1]))
    """
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(body)], env=environment) as run:
        while not mark.exists() or len(mark.read_text().split()) < 2:
            assert run.poll() is None
            time.sleep(0.02)
        assert len(list(temporary.iterdir())) == 1
        run.send_signal(signal.SIGKILL)
    assert gone([int(line) for line in mark.read_text().split()])
    end = time.monotonic() + 5
    while list(temporary.iterdir()) and time.monotonic() < end:
        time.sleep(0.02)


def test_folders_that_nobody_could_remove_are_removed_at_the_next_start(temporary):
    old, young, foreign = temporary / f"{PREFIX}old", temporary / f"{PREFIX}young", temporary / "somebody's"
    for folder in (old, young, foreign):
        (folder / "inside").mkdir(parents=True)
    hour_ago = time.time() - 3600
    os.utime(old, (hour_ago, hour_ago))
    os.utime(foreign, (hour_ago, hour_ago))
    asked("echo 0.5")
    assert sorted(temporary.iterdir()) == sorted([young, foreign])
    for folder in (young, foreign):
        (folder / "inside").rmdir()
        folder.rmdir()


def test_a_folder_in_use_is_not_taken_for_an_abandoned_one(temporary):
    old = f"touch -d '1 hour ago' {temporary}/{PREFIX}*; echo go > {temporary}/../go"
    pause = f'{old}; sleep 1; cat "$1" >/dev/null && echo 0.5'
    answers = []
    worker = threading.Thread(target=lambda: answers.append(asked(pause, limit=20).value(LOGITS, TARGETS)))
    worker.start()
    while not (temporary.parent / "go").exists():
        time.sleep(0.02)
    asked("echo 0.5")
    worker.join()
    assert answers == [0.5]


def test_of_what_a_command_prints_the_last_megabyte_is_kept():
    metric = asked(
        "head -c 50000000 /dev/zero | tr '\\0' '\\n'; echo 0.5; head -c 50000000 /dev/zero >&2; exit 0", limit=60
    )
    assert metric.value(LOGITS, TARGETS) == 0.5
    text = metric.function.transport(_question())
    assert len(text) <= LONGEST and text.endswith("\n0.5\n")


def _question():
    from metricopt.metrics.external.exchange import Question

    return Question({"predictions": LOGITS.numpy(), "targets": TARGETS.numpy()})


def test_a_command_gets_the_users_environment_folder_and_arguments_as_they_are(tmp_path, monkeypatch):
    monkeypatch.setenv("MINE", "a b")
    monkeypatch.chdir(tmp_path)
    script = '[ "$MINE" = "a b" ] && [ "$PWD" = "$2" ] && [ "$3" = "x  y" ] && ! read line && echo 0.5'
    line = f"sh -c {shlex.quote(script)} sh {{predictions}} {shlex.quote(str(tmp_path))} 'x  y'"
    assert mo.CommandMetric(line, goal="max", retries=0).value(LOGITS, TARGETS) == 0.5


def test_calls_that_hang_do_not_pile_up():
    release, before = threading.Event(), threading.active_count()
    began = time.monotonic()
    for _ in range(MOST_HANGING + 20):
        with pytest.raises(TimeoutError, match=r"no answer within 0.01 s"):
            within(0.01, release.wait, 30.0)
    assert time.monotonic() - began < 10
    assert threading.active_count() <= before + MOST_HANGING
    with pytest.raises(TimeoutError, match=f"{MOST_HANGING} earlier calls still hang, so it was not asked"):
        within(0.01, max, 1, 2)
    release.set()
    assert within(5.0, max, 1, 2) == 2


@pytest.mark.parametrize("limit", [0, -1, float("nan"), float("inf")])
def test_a_time_limit_is_a_positive_number(limit):
    for metric in (
        lambda: asked("echo 0.5", limit=limit),
        lambda: mo.HttpMetric("http://h/", goal="max", time_limit=limit),
    ):
        with pytest.raises(MetricError, match="a positive number is expected"):
            metric()
