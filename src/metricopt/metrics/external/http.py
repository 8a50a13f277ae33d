"""Asking a server: predictions posted to a URL, the answer in its response."""

import http.client
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Literal, final

from metricopt.core.errors import MetricError
from metricopt.metrics.external.exchange import NoAnswerError, Question

_LONGEST = 1_000_000  # bytes of an answer that holds one number


@final
class Post:
    """A URL that predictions are posted to, as JSON or as NumPy's npz.

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
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise MetricError(f"the URL {url!r} is not one of a server; expected http:// or https:// with a host")
        self.url, self.time_limit, self.encoding = url, time_limit, encoding
        self.headers = dict(headers or {})

    def __call__(self, question: Question) -> str:
        """What the server answered to the question."""
        as_json = self.encoding == "json"
        body = question.as_json().encode() if as_json else question.as_npz()
        kind = "application/json" if as_json else "application/octet-stream"
        request = urllib.request.Request(self.url, body, {"Content-Type": kind, **self.headers}, method="POST")
        try:
            return self._read(request)
        except urllib.error.HTTPError as error:
            with error:
                said = error.read(300).decode(errors="replace").strip()
            # A refusal (4xx) will be repeated; an accident (5xx), or a request to wait (429), may pass.
            kind_of_error = NoAnswerError if error.code >= 500 or error.code == 429 else MetricError
            raise kind_of_error(f"{self.url} answered {error.code} {error.reason} and said {said!r}") from error
        except (
            OSError,
            ValueError,
            http.client.HTTPException,
        ) as error:  # URLError, time-outs, broken connections and protocols
            raise NoAnswerError(f"{self.url} gave no answer within {self.time_limit:g} s: {error}") from error

    def _read(self, request: urllib.request.Request) -> str:
        # The library's limit is for each read: a server that drips would never be late.
        deadline, content = time.monotonic() + self.time_limit, b""
        with urllib.request.urlopen(request, timeout=self.time_limit) as response:
            while part := response.read1(65536):
                content += part
                if time.monotonic() > deadline or len(content) > _LONGEST:
                    raise TimeoutError(f"{len(content)} bytes so far, and no end")
        return content.decode(errors="replace")
