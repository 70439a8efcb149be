"""The thread with which a gateway keeps the index of calls up to date."""

import logging
import threading
import time
from collections.abc import Callable

from hookgate.proxy.audit.index.building import CallIndex
from hookgate.proxy.errors import StoreError
from hookgate.proxy.store.database import FAILURES, reason

log = logging.getLogger("hookgate.audit")

_SECONDS = 2.0
"""Seconds between two looks at whether records were written, without a statement if there were none.

A step for a few calls costs as much as one for twenty more. Who searches calls takes the last steps itself.
"""

_TRIES = 3
"""Looks after the last record was written: the record may come to the database a moment later."""

_RETRY_SECONDS = 30.0

_CLOSE_SECONDS = 5.0


class IndexThread:
    """Indexes calls after they were recorded. A failure is logged, and never affects a call."""

    def __init__(self, index: CallIndex, written: Callable[[], int]) -> None:
        """`written` returns how many records this process has written."""
        self._index, self._written = index, written
        self._closing = threading.Event()
        self._failing = False
        self._thread = threading.Thread(target=self._work, name="hookgate-audit-index", daemon=True)

    def start(self) -> None:
        """Start the thread, which first indexes what is not indexed yet."""
        self._thread.start()

    def close(self) -> None:
        """End the thread after its current step. What is missing is indexed later."""
        self._closing.set()
        self._thread.join(_CLOSE_SECONDS)

    def _work(self) -> None:
        seen, tries, pause = -1, 0, 0.0
        while not self._closing.wait(pause):
            written = self._written()
            tries = _TRIES if written != seen else max(tries - 1, 0)
            seen, pause = written, _SECONDS
            if tries:
                pause = self._take_step()
                if pause != _SECONDS:  # there is more to index, or it has to be tried again
                    seen = -1

    def _take_step(self) -> float:
        """Take a step, and return for how many seconds to pause."""
        began = time.monotonic()
        try:
            step = self._index.step() if self._index.is_behind() else None
        except (*FAILURES, StoreError) as error:
            if not self._failing:
                log.error("calls cannot be indexed, so they may not be found: %s", reason(error))
            self._failing = True
            return _RETRY_SECONDS
        if self._failing:
            log.warning("calls can be indexed again")
        self._failing = False
        # Half of the time at most: calls need the processor more.
        return time.monotonic() - began if step is not None and step.more else _SECONDS
