"""A connection to a server that can be cut at any moment, from outside the thread that uses it."""

import contextlib
import http.client
import socket
import threading
import urllib.request
from typing import Any, TypeVar, final


@final
class Line:
    """One request over HTTP or HTTPS, through the proxy that the environment names if it does; no redirect is followed.

    Example:
        >>> line = Line()
        >>> line.cut()
        >>> line.sent(urllib.request.Request("http://127.0.0.1:9/"), 1.0)
        Traceback (most recent call last):
        ...
        urllib.error.URLError: ...
    """

    def __init__(self) -> None:
        self._handle: socket.socket | None = None
        self._late, self._lock = False, threading.Lock()

    def sent(self, request: urllib.request.Request, seconds: float) -> http.client.HTTPResponse:
        """The response to a request, of whatever status, its content not yet read; `seconds` for each step of it."""
        # Built by hand: the usual opener follows redirects, and reads files and FTP.
        opener = urllib.request.OpenerDirector()
        for handler in (urllib.request.ProxyHandler(), _Plain(self), _Secure(self)):
            opener.add_handler(handler)
        response = opener.open(request, timeout=seconds)
        if not isinstance(response, http.client.HTTPResponse):
            raise OSError("its proxy is not reached by http or https")
        return response

    def connected(self, connection: http.client.HTTPConnection) -> None:
        """Keep a hold on a new connection; an error if the line was cut before there was one."""
        with self._lock:
            if self._late:
                connection.close()
                raise TimeoutError("it was too late when the connection was made")
            # A second handle of the same connection: the first one is taken over by TLS, or closed early.
            self._handle = connection.sock.dup()

    def cut(self) -> None:
        """End what is under way: whoever waits for the server is woken with an error."""
        with self._lock:
            self._late = True
            if self._handle is not None:
                with contextlib.suppress(OSError):
                    self._handle.shutdown(socket.SHUT_RDWR)
                self._handle.close()


class _Http(http.client.HTTPConnection):
    line: Line

    def connect(self) -> None:
        super().connect()
        self.line.connected(self)


class _Https(http.client.HTTPSConnection, _Http):
    """In this order TLS begins after `_Http.connect`, so that its handshake can be cut too."""


_Kind = TypeVar("_Kind", bound=_Http)


def _on(line: Line, kind: type[_Kind]) -> Any:
    """What makes the connections of a handler."""

    def made(host: str, **more: Any) -> _Kind:
        connection = kind(host, **more)
        connection.line = line
        return connection

    return made


class _Plain(urllib.request.HTTPHandler):
    def __init__(self, line: Line) -> None:
        super().__init__()
        self._line = line

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_on(self._line, _Http), req)


class _Secure(urllib.request.HTTPSHandler):
    def __init__(self, line: Line) -> None:
        super().__init__()
        self._line = line

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_on(self._line, _Https), req)
