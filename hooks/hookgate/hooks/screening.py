"""Streamed answers before policies that judge them piece by piece, each under its hook's settings. Pure."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hookgate.hooks.errors import HookError
from hookgate.hooks.output import Output
from hookgate.hooks.running import Run, failed
from hookgate.hooks.session import Screen, Withheld
from hookgate.hooks.settings import Hook
from hookgate.translator.fields import JsonObject

T = TypeVar("T")


class HookScreen:
    """A hook's screen for one answer. It is a screen itself."""

    def __init__(self, hook: Hook, screen: Screen) -> None:
        self._hook, self._screen = hook, screen
        self._began, self._seconds = 0.0, 0.0
        self._failure: HookError | None = None
        self._withheld: Output = {}
        self._events = 0

    @property
    def slow(self) -> bool:
        return self._screen.slow

    def judge(
        self, events: Sequence[JsonObject], *, last: bool, cut_off: bool = False
    ) -> list[tuple[int, JsonObject]]:
        """As its policy judges; with `"mode": "observe"` all events go on as they came.

        A policy that fails withholds the answer, whatever `on_error` says: what it holds would be lost.
        """
        first, self._events = self._events, self._events + len(events)
        as_they_came = list(enumerate(events, first))
        if self._hook.config.mode == "observe" and (self._failure or self._withheld):
            return as_they_came
        judged = self._timed(lambda: self._screen.judge(events, last=last, cut_off=cut_off))
        if self._hook.config.mode == "observe":
            return as_they_came
        if isinstance(judged, Withheld):
            raise judged
        return judged

    def redact(self, value: Any) -> Any:
        """As its policy redacts it; with `"mode": "observe"` as it came."""
        redacted = self._timed(lambda: self._screen.redact(value))
        if not self.enforces:
            return value
        if isinstance(redacted, Withheld):
            raise redacted
        return redacted

    @property
    def enforces(self) -> bool:
        """Whether what the policy says is done."""
        return self._hook.config.mode == "enforce"

    def _timed(self, judge: Callable[[], T]) -> T | Withheld:
        began = time.monotonic()
        self._began = self._began or began
        try:
            return judge()
        except Withheld as verdict:
            self._withheld = verdict.output()
            return verdict
        except HookError as error:
            self._failure = error
            return Withheld(failed(self._hook))
        except Exception as error:  # whatever it is, nothing may pass unjudged
            self._failure = HookError(f"raised {error!r}")
            return Withheld(failed(self._hook))
        finally:
            self._seconds += time.monotonic() - began

    def told(self) -> JsonObject:
        told, withheld = self._screen.told(), self._withheld
        found = Counter(_findings(told)) + Counter(_findings(withheld))
        specific = {**(told.get("hookSpecificOutput") or {}), **({"findings": dict(found)} if found else {})}
        return {**told, **withheld, **({"hookSpecificOutput": specific} if specific else {})}

    def run(self) -> Run:
        """All that came of the answer so far, as one run of the hook."""
        output = self.told()
        edit = (output.get("hookSpecificOutput") or {}).get("llm_response") or {}
        return Run(self._hook, (), output, edit, self._failure, self._seconds, self._began)


class Refused:
    """The screen of a hook that must not run: it fails."""

    slow = False

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def judge(
        self, events: Sequence[JsonObject], *, last: bool, cut_off: bool = False
    ) -> list[tuple[int, JsonObject]]:
        raise HookError(self._reason)

    def redact(self, value: Any) -> Any:
        raise HookError(self._reason)

    def told(self) -> JsonObject:
        return {}


def _findings(output: Output) -> dict[str, int]:
    found: dict[str, int] = (output.get("hookSpecificOutput") or {}).get("findings") or {}
    return found
