"""The kinds of hooks: how each takes an input document and gives an output.

command      a program per event, or one kept alive (`"persistent": true`)
runtime      a Python callable in this process
http         a service
builtin      a policy that comes with hookgate
"""

from typing import Protocol

from hookgate.hooks.document import Document
from hookgate.hooks.output import Output
from hookgate.hooks.session import Session


class Runner(Protocol):
    """One hook, ready to run. A runner may be called many times at once, and does not block the loop."""

    async def run(self, event: str, session: Session, document: Document) -> Output | None:
        """The hook's checked output, or None when it said nothing. Raises HookError when it failed.

        A runner keeps to the hook's own `timeout`, and leaves nothing behind when it is cancelled.
        """

    async def close(self) -> None:
        """End what the runner keeps: processes, connections."""
