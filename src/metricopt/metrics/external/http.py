"""Asking a server: predictions posted to a URL, the answer in its response."""

import http.client
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Literal, NamedTuple, final

from metricopt.core.errors import MetricError
from metricopt.metrics.checks import positive
from metricopt.metrics.external.exchange import NoAnswerError, Question
from metricopt.metrics.external.line import Line
from metricopt.metrics.time_limit import within

LONGEST = 1_000_000
"""Bytes that the answer of a server may have: it holds one number."""


class _Response(NamedTuple):
    status: int
    reason: str
    content: bytes


@final
class Post:
    """A URL that predictions are posted to, as JSON or as NumPy's npz; it is never sent on to another one.

    Attributes:
        identity: What it asks, for the key of remembered answers.

    Example:
        >>> Post("http://127.0.0.1:8000/score", time_limit=10).url
        'http://127.0.0.1:8000/score'
    """

    def __init__(
        self,
        url: str,
        *,
        time_limit: float,
        encoding: Literal["json", "npz"] = "json",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Check the URL: a file would be read rather than asked."""
        self.url, self.headers = _checked_url(url), _checked_headers(headers or {})
        if encoding not in ("json", "npz"):
            raise MetricError(f"encoding is {encoding!r}; expected 'json' or 'npz'")
        self.encoding: Literal["json", "npz"] = encoding
        self.time_limit = positive(url, "time_limit", time_limit) or 60.0
        self.identity = f"url {url}"

    def __call__(self, question: Question) -> str:
        """What the server answered to the question."""
        as_json = self.encoding == "json"
        body = question.as_json().encode() if as_json else question.as_npz()
        kind = "application/json" if as_json else "application/octet-stream"
        request = urllib.request.Request(self.url, body, {"Content-Type": kind, **self.headers}, method="POST")
        line = Line()
        try:
            # A socket's own limit is for each read: a server that drips its answer or its headers would never be late.
            response = within(self.time_limit, _exchanged, line, request, self.time_limit)
        # Time-outs, broken connections and protocols, sizes that are none: whatever it was, no answer came.
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise NoAnswerError(f"{self.url} gave no answer within {self.time_limit:g} s: {error}") from error
        finally:
            line.cut()
        return self._accepted(response)

    def _accepted(self, response: _Response) -> str:
        if response.status in (200, 201):
            return response.content.decode(errors="replace")
        said = response.content.decode(errors="replace").strip()[:300]
        if 300 <= response.status < 400:
            raise MetricError(
                f"{self.url} answered {response.status} {response.reason}; redirects are not followed, as they would "
                f"take the headers along: give the final URL"
            )
        # A refusal (4xx) will be repeated; an accident (5xx), a request to wait (429) or half an answer may pass.
        passing = response.status >= 500 or response.status < 300 or response.status == 429
        kind_of_error = NoAnswerError if passing else MetricError
        raise kind_of_error(f"{self.url} answered {response.status} {response.reason} and said {said!r}")


def _exchanged(line: Line, request: urllib.request.Request, seconds: float) -> _Response:
    with line.sent(request, seconds) as response:
        _check_length(response)
        content = response.read(LONGEST + 1)
        if response.length:
            raise http.client.IncompleteRead(content, response.length)
        if len(content) > LONGEST:
            raise ValueError(f"it sent more than {LONGEST} bytes where one number is expected")
        return _Response(response.status, response.reason, content)


def _check_length(response: http.client.HTTPResponse) -> None:
    """A body whose end cannot be told may have been cut: half a number looks like a number."""
    lengths = set(response.headers.get_all("Content-Length", []))
    if len(lengths) > 1 or any(not (each.isascii() and each.strip().isdigit()) for each in lengths):
        raise ValueError(f"its Content-Length is {', '.join(sorted(lengths))[:60]!r}; expected one number")
    for name, plain in (("Transfer-Encoding", "chunked"), ("Content-Encoding", "identity")):
        found = response.headers.get(name, plain)
        if found.strip().lower() != plain:
            raise ValueError(f"its {name} is {found[:60]!r}; expected {plain!r} or none")


def _checked_url(url: str) -> str:
    try:
        parts = urllib.parse.urlsplit(url)
        sound = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        sound = False
    if not sound or any(ord(letter) <= 32 or ord(letter) > 126 for letter in url):
        raise MetricError(f"the URL {url!r} is not one of a server; expected http:// or https:// with a host")
    if "@" in urllib.parse.urlsplit(url).netloc:
        raise MetricError("the URL has a user name or a password in it; expected none: pass them in headers")
    return url


def _checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        sound = isinstance(name, str) and isinstance(value, str) and name.isascii() and name and value.isascii()
        if not sound or any(ord(letter) < 32 for letter in name + value) or ":" in name:
            raise MetricError(f"the header {name!r} is not one; expected text without line breaks: correct it")
    return dict(headers)
