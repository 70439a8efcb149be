"""Who decides about an event: a gateway, or hooks in this process."""

from typing import Literal, Protocol

from hookgate.shim.decisions import Decision, Json

OnUnreachable = Literal["allow", "deny"]
"""What hooks are taken to say while nobody can ask them."""


class Transport(Protocol):
    """Lives in one event loop; see host.py."""

    async def fire(self, event: str, document: Json, *, deliver: bool) -> Decision:
        """The decision about an event's input document.

        With `deliver` a gateway adds the context to the session's next model call by itself.
        """

    async def close(self) -> None:
        """End what is kept."""
