"""Applies the settings of a hook to the screen of its policy, which filters answers piece by piece."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from hookgate.hooks.errors import HookError, HookUnavailableError
from hookgate.hooks.output import Output
from hookgate.hooks.runs import Run, failure_message
from hookgate.hooks.session import Screen, Withheld
from hookgate.hooks.settings import Hook
from hookgate.translator.fields import JsonObject

T = TypeVar("T")


class HookScreen:
    """A Screen that applies a hook's settings to the screen of its policy, for one answer."""

    def __init__(self, hook: Hook, screen: Screen) -> None:
        self._hook, self._screen = hook, screen
        self._began, self._seconds = 0.0, 0.0
        self._failure: HookError | None = None
        self._withheld: Output = {}
        self._added: list[JsonObject] = []  # in observe mode, the events that `feed` will return
        self._events = 0

    @property
    def slow(self) -> bool:
        return self._screen.slow

    def takes_long(self, values: Sequence[Any]) -> bool:
        """Return whether the policy may take so long for these values that it must run in a thread."""
        return self._screen.takes_long(values)

    def add(self, events: Sequence[JsonObject]) -> None:
        """Add the next events of the answer, which `feed` releases. Raises Withheld if it is withheld."""
        if self.enforces:
            self._enforced(partial(self._screen.add, events))
            return
        self._added += events
        self._observed(partial(self._screen.add, events))

    def feed(
        self, events: Sequence[JsonObject], *, last: bool, cut_off: bool = False
    ) -> list[tuple[int, JsonObject]]:
        """Return the events that the policy releases; with `"mode": "observe"`, all events unchanged.

        If the policy fails, the answer is withheld regardless of `on_error`: text held back would be lost.
        Raises Withheld if the answer is withheld.
        """
        run_screen = partial(self._screen.feed, events, last=last, cut_off=cut_off)
        if self.enforces:
            return self._enforced(run_screen)
        self._observed(run_screen)
        passed, self._added = [*self._added, *events], []
        first, self._events = self._events, self._events + len(passed)
        return list(enumerate(passed, first))

    def redact(self, value: Any) -> Any:
        """Return the redacted value, or in observe mode the same value. Raises Withheld to withhold it."""
        redact = partial(self._screen.redact, value)
        if self.enforces:
            return self._enforced(redact)
        self._call(redact)
        return value

    @property
    def enforces(self) -> bool:
        """Whether the policy's decisions and edits are applied."""
        return self._hook.config.mode == "enforce"

    def _enforced(self, step: Callable[[], T]) -> T:
        """Return the result of a step. Raises Withheld if it fails."""
        result = self._call(step)
        if isinstance(result, Withheld):
            raise result
        return result

    def _observed(self, step: Callable[[], object]) -> None:
        """Call a step unless an earlier one has failed."""
        if not (self._failure or self._withheld):
            self._call(step)

    def _call(self, step: Callable[[], T]) -> T | Withheld:
        """Call `step`, measure its time, and return Withheld if it fails."""
        began = time.monotonic()
        self._began = self._began or began
        try:
            return step()
        except Withheld as withheld:
            self._withheld = withheld.output()
            return withheld
        except HookError as error:
            self._failure = error
            return Withheld(failure_message(self._hook))
        except Exception as error:  # unchecked text must not be sent
            self._failure = HookUnavailableError("internal error", f"raised {error!r}")
            return Withheld(failure_message(self._hook))
        finally:
            self._seconds += time.monotonic() - began

    def findings_output(self) -> JsonObject:
        output, withheld = self._screen.findings_output(), self._withheld
        specific = dict(output.get("hookSpecificOutput") or {})
        if findings := Counter(_findings(output)) + Counter(_findings(withheld)):
            specific["findings"] = dict(findings)
        return {**output, **withheld, **({"hookSpecificOutput": specific} if specific else {})}

    def as_run(self) -> Run:
        """Return the outcome for the answer so far, as one run of the hook."""
        output = self.findings_output()
        edit = (output.get("hookSpecificOutput") or {}).get("llm_response") or {}
        return Run(self._hook, (), output, edit, self._failure, self._seconds, self._began)


class RefusedScreen:
    """The screen of a hook that must not run: it always fails."""

    slow = False

    def __init__(self, failure: HookError) -> None:
        self._failure = failure

    def takes_long(self, values: Sequence[Any]) -> bool:
        return False

    def add(self, events: Sequence[JsonObject]) -> None:
        raise self._failure

    def feed(
        self, events: Sequence[JsonObject], *, last: bool, cut_off: bool = False
    ) -> list[tuple[int, JsonObject]]:
        raise self._failure

    def redact(self, value: Any) -> Any:
        raise self._failure

    def findings_output(self) -> JsonObject:
        return {}


def _findings(output: Output) -> dict[str, int]:
    findings: dict[str, int] = (output.get("hookSpecificOutput") or {}).get("findings") or {}
    return findings
