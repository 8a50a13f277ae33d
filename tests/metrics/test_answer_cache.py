"""Answers are kept by what was asked of whom, beside those of other processes, and nothing in the file is lost."""

import errno
import json
import subprocess
import sys
import textwrap
import threading
import zlib

import numpy as np
import pytest

from metricopt.core.errors import FileFormatError, MetricOptWarning
from metricopt.core.sealed import sealed
from metricopt.metrics.external.cache import AnswerCache
from metricopt.metrics.external.metrics import CommandMetric, HttpMetric, Outside

QUESTION = (np.array([0, 1]), np.array([0.25, 0.5]))


def outside(answer, path, identity="command a"):
    return Outside(lambda _: answer, retries=0, cache=path, identity=identity)


def test_another_command_or_url_does_not_get_the_answers_of_the_first(tmp_path):
    assert outside("0.25", tmp_path / "cache")(*QUESTION) == 0.25
    assert outside("0.75", tmp_path / "cache", "command b")(*QUESTION) == 0.75
    assert outside("0.5", tmp_path / "cache")(*QUESTION) == 0.25
    metrics = [
        CommandMetric("true {predictions}", goal="max"),
        CommandMetric("false {predictions}", goal="max"),
        HttpMetric("http://a/", goal="max"),
        HttpMetric("http://a/b", goal="max"),
    ]
    assert len({metric.function.identity for metric in metrics}) == 4


def test_other_predictions_or_rows_are_another_question(tmp_path):
    outside("0.25", tmp_path / "cache")(*QUESTION)
    again = outside("0.75", tmp_path / "cache")
    assert again(QUESTION[0], QUESTION[1] + 0.25) == again(QUESTION[0] + 1, QUESTION[1]) == 0.75
    assert again(*QUESTION) == 0.25 and (again.calls, again.recalled) == (2, 1)


@pytest.mark.parametrize("cut", [1, 5, 12, 30, 40])
def test_a_line_cut_short_is_left_as_it_is_and_costs_that_answer_only(tmp_path, cut):
    path = tmp_path / "cache"
    for key in ("a", "b"):
        AnswerCache(path).keep(key, 0.25)
    lines = path.read_bytes().splitlines(keepends=True)
    torn = lines[0] + lines[1][:cut]
    path.write_bytes(torn)
    cache = AnswerCache(path)
    assert cache.find("a") == 0.25 and cache.find("b") is None
    cache.keep("c", 0.5)
    assert path.read_bytes().startswith(torn)
    again = AnswerCache(path)
    assert (again.find("a"), again.find("b"), again.find("c")) == (0.25, None, 0.5)


FOREIGN = [
    b"0.25",
    b"x" * 5000,
    b"epoch,loss\n1,0.5\n",
    b"\x89PNG\r\n\x1a\n",
    b'{"event": "answer", "time": 1.0, "key": "a", "value": 0.5}\n',  # of an older version, whose keys name no command
    b"[]\n",
    sealed({"answer": "a", "value": 0.5}) + b"and a note",
    b'{"answer": "' + b"a" * 5000,
]


@pytest.mark.parametrize("content", FOREIGN)
def test_a_file_with_anything_else_in_it_is_refused_and_stays_as_it_is(tmp_path, content):
    path = tmp_path / "mine"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=r"line \d of .*mine is no answer .* choose another file"):
        outside("0.5", path)
    assert path.read_bytes() == content


def test_a_changed_answer_is_not_believed(tmp_path):
    path = tmp_path / "cache"
    AnswerCache(path).keep("a", 0.25)
    path.write_bytes(path.read_bytes().replace(b"0.25", b"0.75"))
    assert AnswerCache(path).find("a") is None


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1" + "0" * 400, "true", "null", '"0.5"'])
def test_a_forged_answer_that_is_no_number_is_not_believed(tmp_path, value):
    body = f'{{"answer": "a", "value": {value}}}'.encode()
    (tmp_path / "cache").write_bytes(body[:-1] + b', "crc32": "%08x"}\n' % zlib.crc32(body))
    assert AnswerCache(tmp_path / "cache").find("a") is None


def test_a_folder_in_its_place_is_one_sentence(tmp_path):
    with pytest.raises(FileFormatError, match="cannot be read"):
        AnswerCache(tmp_path)


def test_an_answer_that_cannot_be_kept_is_used_nevertheless(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    asker = outside("0.5", tmp_path / "cache")
    monkeypatch.setattr("metricopt.metrics.external.cache.write_all", full)
    with pytest.warns(MetricOptWarning, match=r"cannot be written .No space left.*; the answer is used but not kept"):
        assert asker(*QUESTION) == asker(*QUESTION) == 0.5
    assert asker.calls == 1


def test_what_others_append_is_seen_at_the_next_look(tmp_path):
    one, other = AnswerCache(tmp_path / "cache"), AnswerCache(tmp_path / "cache")
    for n in range(3):
        one.keep(f"{n}", n / 4)
        assert other.find(f"{n}") == n / 4


def test_threads_that_share_a_file_lose_nothing(tmp_path):
    def keep(name):
        cache = AnswerCache(tmp_path / "cache")
        for n in range(50):
            cache.keep(f"{name} {n}", 0.5)

    threads = [threading.Thread(target=keep, args=(name,)) for name in "abc"]
    _ = [thread.start() for thread in threads], [thread.join() for thread in threads]
    assert all(AnswerCache(tmp_path / "cache").find(f"{name} {n}") == 0.5 for name in "abc" for n in range(50))


@pytest.mark.skipif(sys.platform == "win32", reason="forks")
def test_processes_that_share_a_file_lose_nothing_even_if_one_is_killed(tmp_path):
    path = tmp_path / "cache"
    body = f"""
        import os, signal, sys
        import numpy as np
        from metricopt.metrics.external.metrics import Outside
        children = []
        for name in range(4):
            child = os.fork()
            if child == 0:
                asker = Outside(lambda _: "0.5", retries=0, cache={str(path)!r})
                for n in range(150 if name < 3 else 10**9):
                    asker(np.array([name]), np.array([n]))
                os._exit(0)
            children.append(child)
        codes = [os.waitpid(child, 0)[1] for child in children[:3]]
        os.kill(children[3], signal.SIGKILL)
        os.waitpid(children[3], 0)
        sys.exit(any(codes))
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(body)], check=True)
    asker = Outside(lambda _: "0.25", retries=0, cache=path)
    assert {asker(np.array([name]), np.array([n])) for name in range(3) for n in range(150)} == {0.5}
    assert asker.calls == 0
    assert all(json.loads(line)["value"] == 0.5 for line in path.read_text().splitlines()[:-1])
