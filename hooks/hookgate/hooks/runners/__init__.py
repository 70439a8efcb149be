"""Runners: one for each type of hook. A runner passes an input document to a hook and returns its output.

command      a program that runs for each event, or that stays alive (`"persistent": true`)
runtime      a Python callable in this process
http         a service
rego         rules in the language of Open Policy Agent
builtin      a policy that comes with hookgate
"""

from typing import Protocol

from hookgate.hooks.events.base import Document
from hookgate.hooks.output import Output
from hookgate.hooks.session import SessionContext


class Runner(Protocol):
    """Runs one hook. A runner may be called concurrently, and does not block the event loop."""

    async def run(self, event: str, session: SessionContext, document: Document) -> Output | None:
        """Return the hook's validated output, or None if it returned nothing.

        A runner enforces the hook's `timeout`, and cleans up if it is cancelled. Raises HookError if the hook
        failed.
        """

    async def close(self) -> None:
        """End the runner's processes and connections."""
