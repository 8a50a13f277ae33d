"""What servers do wrong: none of it is taken for a number, and none of it lasts longer than the time limit."""

import contextlib
import itertools
import socket
import struct
import threading
import time

import numpy as np
import pytest
import torch

import metricopt as mo
from metricopt.core.errors import MetricError
from metricopt.metrics.external.exchange import Question
from metricopt.metrics.external.http import LONGEST, Post

LIMIT, SLACK = 0.3, 1.0
LOGITS, TARGETS = torch.tensor([0.5, -1.0, 2.0, 0.1]), torch.tensor([1, 0, 1, 0])
OK = b"HTTP/1.1 200 OK\r\n"
RESET, HANG = object(), object()


def drip(content):
    """Content a byte at a time, slower than the limit but faster than any single read's."""
    return itertools.chain.from_iterable((bytes([byte]), 0.1) for byte in content * 100)


def answer(status, body, *headers):
    lines = [f"HTTP/1.1 {status}".encode(), b"Content-Length: %d" % len(body), *headers]
    return [b"\r\n".join(lines) + b"\r\n\r\n" + body]


FAULTS = {
    # Half answers
    "a body shorter than its length": [OK + b"Content-Length: 6\r\n\r\n0.1"],
    "a body shorter than its length, and then silence": [OK + b"Content-Length: 6\r\n\r\n0.1", HANG],
    "a body shorter than its length, and then a reset": [OK + b"Content-Length: 6\r\n\r\n0.1", 0.05, RESET],
    "a length that is negative": [OK + b"Content-Length: -3\r\n\r\n0.1"],
    "a length that is no number": [OK + b"Content-Length: three\r\n\r\n0.1"],
    "two lengths": [OK + b"Content-Length: 3\r\nContent-Length: 6\r\n\r\n0.1234"],
    "a chunk cut short": [OK + b"Transfer-Encoding: chunked\r\n\r\n6\r\n0.1"],
    "no last chunk": [OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\n0.1\r\n"],
    "a chunk of no size": [OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n0.1\r\n0\r\n\r\n"],
    "a chunk of negative size": [OK + b"Transfer-Encoding: chunked\r\n\r\n-3\r\n0.1\r\n0\r\n\r\n"],
    "an unknown transfer encoding": [OK + b"Transfer-Encoding: rot13\r\n\r\n0.1"],
    "a compressed body": answer("200 OK", b"0.1", b"Content-Encoding: gzip"),
    "a connection closed in the headers": [OK + b"Content-Le"],
    # Silence and slowness
    "silence": [HANG],
    "silence after the status": [OK, HANG],
    "silence after the headers": [OK + b"Content-Length: 3\r\n\r\n", HANG],
    "a dripping status line": drip(OK),
    "dripping headers": [OK, *drip(b"X: y\r\n")],
    "a dripping body": [OK + b"\r\n", *drip(b"0")],
    "a dripping body of known length": [OK + b"Content-Length: 100\r\n\r\n", *drip(b"0")],
    "dripping chunks": [OK + b"Transfer-Encoding: chunked\r\n\r\n", *drip(b"1\r\n0\r\n")],
    "a dripping error": [b"HTTP/1.1 500 Oops\r\nContent-Length: 99\r\n\r\n", *drip(b"x")],
    "a dripping refusal": [b"HTTP/1.1 404 No\r\n\r\n", *drip(b"x")],
    "a dripping redirect": [b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\n\r\n", *drip(b"x")],
    "continue for ever": itertools.cycle([b"HTTP/1.1 100 Continue\r\n\r\n", 0.01]),
    # Too much
    "headers without end": [OK, *(b"X-%d: y\r\n" % i for i in range(2000))],
    "a header without end": [OK + b"X: ", *([b"y" * 10_000] * 200)],
    "a status line without end": [b"HTTP/1.1 200 ", *([b"y" * 10_000] * 200)],
    "a body without end": [OK + b"\r\n", *([b"0" * 10_000] * 200)],
    "a body of a million megabytes": [OK + b"Content-Length: 1000000000000\r\n\r\n", *([b"0" * 10_000] * 200)],
    "chunks without end": [OK + b"Transfer-Encoding: chunked\r\n\r\n", *([b"400\r\n" + b"0" * 1024 + b"\r\n"] * 2000)],
    # No HTTP
    "nothing": [],
    "a reset": [RESET],
    "garbage": [b"\x00\xff\x16\x03 not a server\r\n\r\n"],
    "a number and no HTTP": [b"0.5\r\n"],
    "a status that is no number": [b"HTTP/1.1 fine OK\r\n\r\n0.5"],
    "a status of five digits": [b"HTTP/1.1 20000 OK\r\n\r\n0.5"],
    "an unknown version": [b"HTTP/9.9 200 OK\r\n\r\n0.5"],
    # Refusals and accidents with a number in them
    **{
        f"status {status}": answer(status, b"0.5", b"Location: {elsewhere}")
        for status in (
            *("202 Accepted", "204 No Content", "206 Partial Content", "300 Choices", "304 Not Modified"),
            *("301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"),
            *("400 Bad", "401 Who", "403 No", "404 Where", "418 Tea", "429 Wait", "500 Oops", "502 Gate", "503 Busy"),
        )
    },
    "an accident of half length": [b"HTTP/1.1 503 Busy\r\nContent-Length: 9\r\n\r\n0.5"],
    "an accident in bad chunks": [b"HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n0.5"],
    "an accident with a bad length": [b"HTTP/1.1 500 Oops\r\nContent-Length: many\r\n\r\n0.5"],
    # Answers that are none
    **{
        f"the answer {body[:30]}": answer("200 OK", body)
        for body in (
            *(b"", b" ", b"none", b"true", b"[0.5]", b"{}", b'{"score": 0.5}', b'{"value": null}', b'{"value": true}'),
            *(b'{"value": [0.5]}', b'{"value": {"value": 0.5}}', b'{"value": 0.1, "value": 0.9}', b'{"value": 0.5'),
            *(b"nan", b"inf", b"-inf", b"7", b"-0.5", b"1" + b"0" * 400, b'{"value": 1%s}' % (b"0" * 400)),
            *(b"0_1", b"0,5", b"50%", b"0.5 0.6", b"0x1", "\uff10.\uff15".encode(), b"\xff0.5", b"0.5\x00", b"0.\n5"),
            *(b"<html>\n<p>\n0\n</p>\n</html>", b'{"value": [\n0.5\n]}', b"log line\n0.5", b"[" * 100_000),
        )
    },
}


class Server:
    """Listens on loopback, takes requests in, and plays what it is told to."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/score"
        self.requests, self.over = [], threading.Event()
        self.plays = iter(())
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.socket.accept()
                threading.Thread(target=self._play, args=(connection, next(self.plays, [])), daemon=True).start()

    def _play(self, connection, play):
        with contextlib.suppress(OSError), connection:
            self.requests.append(_request(connection))
            for step in play:
                if step is HANG:
                    self.over.wait(10)
                elif step is RESET:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                elif isinstance(step, float):
                    time.sleep(step)
                else:
                    connection.sendall(step)

    def close(self):
        self.over.set()
        self.socket.close()


def _request(connection):
    """Head and body of a request; whatever is left unread would turn the answer into a reset."""
    content = b""
    while b"\r\n\r\n" not in content:
        content += connection.recv(65536)
    head, _, body = content.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65536)
    return head


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = Server()
    yield server
    server.close()


def refused(url, *, limit=LIMIT, **settings):
    """The sentence with which a metric refuses, and that it does so in time."""
    metric = mo.HttpMetric(url, goal="max", time_limit=limit, retries=0, name="remote", **settings)
    began = time.monotonic()
    with pytest.raises(MetricError, match="metric 'remote'") as error:
        metric.value(LOGITS, TARGETS)
    assert time.monotonic() - began < limit + SLACK
    return str(error.value)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_server_gives_no_number_and_is_not_waited_for(server, fault):
    server.plays = iter([FAULTS[fault]])
    assert refused(server.url, headers={"Authorization": "Bearer key"})


def test_there_are_sixty_kinds_of_faults():
    assert len(FAULTS) >= 60


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_refused_and_the_other_server_hears_nothing(server, status):
    other = Server()
    other.plays = iter([answer("200 OK", b"0.5")])
    server.plays = iter([answer(f"{status} There", b"", f"Location: {other.url}".encode())])
    assert "redirects are not followed" in refused(server.url, headers={"Authorization": "Bearer key"})
    other.close()
    assert other.requests == [] and len(server.requests) == 1


def test_half_an_answer_and_a_malformed_accident_are_tried_again(server):
    server.plays = iter(
        [FAULTS["a body shorter than its length"], FAULTS["an accident in bad chunks"], *[answer("200 OK", b"0.5")]]
    )
    metric = mo.HttpMetric(server.url, goal="max", time_limit=5.0, retries=2)
    metric.function._pause = lambda _: None
    assert metric.value(LOGITS, TARGETS) == 0.5 and len(server.requests) == 3


@pytest.mark.parametrize(
    "play",
    [
        answer("200 OK", b"0.5"),
        [OK + b"\r\n0.5"],
        [OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\n0.5\r\n0\r\n\r\n"],
        [b'HTTP/1.0 200 OK\r\n\r\n{\n "value": 0.5\n}\n'],
        answer("201 Created", b"0.5\n"),
        [OK, 0.1, b"Content-Length: 3\r\n\r\n0.", 0.1, b"5", HANG],
    ],
)
def test_a_sound_server_is_understood(server, play):
    server.plays = iter([play])
    assert mo.HttpMetric(server.url, goal="max", time_limit=5.0, retries=0).value(LOGITS, TARGETS) == 0.5


def test_a_port_where_nobody_listens_is_no_answer():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert "refused" in refused(f"http://127.0.0.1:{port}/")


def test_connecting_is_not_waited_for_beyond_the_limit():
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):  # the queue of those who wait to be accepted is full: further ones hear nothing
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        time.sleep(0.05)
        assert "gave no answer within 0.3 s" in refused(f"http://127.0.0.1:{full.getsockname()[1]}/")


@pytest.mark.parametrize("play", [[HANG], drip(b"\x16\x03\x03\x00\x50"), [b"HTTP/1.1 200 OK\r\n\r\n0.5"], [], [RESET]])
def test_a_handshake_that_never_ends_or_is_none_is_not_waited_for(play):
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            connection, _ = listening.accept()
            with contextlib.suppress(OSError), connection:
                connection.recv(100)
                for step in play:
                    time.sleep(1.5) if step is HANG else time.sleep(step) if isinstance(step, float) else (
                        connection.sendall(step) if isinstance(step, bytes) else None
                    )

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        assert refused(f"https://127.0.0.1:{listening.getsockname()[1]}/")
        thread.join()


def test_a_server_that_does_not_read_what_it_is_sent_is_not_waited_for():
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        post = Post(f"http://127.0.0.1:{deaf.getsockname()[1]}/", time_limit=LIMIT, encoding="npz")
        question = Question({"predictions": np.zeros(4_000_000)})
        question.as_npz()
        began = time.monotonic()
        with pytest.raises(MetricError, match=r"gave no answer within 0.3 s"):
            post(question)
        assert time.monotonic() - began < LIMIT + SLACK + 1.0  # of which a second is for 32 MB made into an archive


def test_requests_that_were_given_up_leave_no_thread_behind(server):
    server.plays = itertools.repeat([OK, *drip(b"X: y\r\n")])
    refused(server.url)
    before = threading.active_count()
    for _ in range(3):
        refused(server.url)
    end = time.monotonic() + 5
    while threading.active_count() > before + 3 and time.monotonic() < end:  # the server's own
        time.sleep(0.05)
    assert threading.active_count() <= before + 3


@pytest.mark.parametrize(
    "url",
    [
        *("file:///etc/hostname", "ftp://host/x", "localhost:80/score", "", "http://", "http:///x", "http://host:abc/"),
        *("http://host:0/", "http://host:99999/", "http://a b/", "http://host/\r\nX: y", "http://[::1", "http://höst/"),
    ],
)
def test_only_servers_can_be_asked(url):
    with pytest.raises(MetricError, match="expected http:// or https:// with a host"):
        mo.HttpMetric(url, goal="max")


def test_a_password_in_a_url_is_refused_and_not_repeated():
    with pytest.raises(MetricError, match="pass them in headers") as error:
        mo.HttpMetric("http://me:secret@host/", goal="max")
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("headers", [{"A": "b\r\nC: d"}, {"": "x"}, {"A: b": "c"}, {"A": "ü"}, {"A": 3}, {"A\n": "b"}])
def test_headers_that_are_none_are_refused_at_once(headers):
    with pytest.raises(MetricError, match="expected text without line breaks"):
        mo.HttpMetric("http://host/", goal="max", headers=headers)


def test_an_answer_may_have_a_megabyte_and_no_more(server):
    server.plays = iter(
        [answer("200 OK", b" " * (LONGEST - 3) + b"0.5"), answer("200 OK", b" " * (LONGEST - 2) + b"0.5")]
    )
    assert mo.HttpMetric(server.url, goal="max", time_limit=10.0, retries=0).value(LOGITS, TARGETS) == 0.5
    assert "more than 1000000 bytes" in refused(server.url, limit=10.0)
