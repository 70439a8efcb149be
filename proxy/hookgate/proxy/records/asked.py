"""One request to the upstream, as it stands in its call's record."""

import time
from collections.abc import Mapping

from hookgate.proxy.tracing.context import Trace, new_span


class Asked:
    """One request. Times are in seconds, of the monotonic clock.

    `span` is its id in the call's trace, 0 without one; `status` is the answer's, 0 as long as none came.
    """

    __slots__ = ("_trace", "answered", "began", "ended", "span", "status")

    def __init__(self, trace: Trace | None) -> None:
        self._trace = trace
        self.span = new_span() if trace else 0
        self.began = time.monotonic()
        self.answered = self.ended = 0.0
        self.status = 0

    def headers(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        """The headers to send, with the place in the trace where there is one."""
        return headers if self._trace is None else self._trace.outgoing(headers, self.span)

    def begun(self, status: int) -> None:
        """The headers of the answer are there."""
        self.answered, self.status = time.monotonic(), status

    def end(self) -> None:
        """The answer was read to its end, or given up."""
        self.ended = time.monotonic()
        self.answered = self.answered or self.ended

    @property
    def waited(self) -> float:
        """Seconds until the answer began."""
        return self.answered - self.began if self.answered else 0.0
