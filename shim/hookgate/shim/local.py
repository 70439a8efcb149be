"""A transport to an engine in this process. Imported only when a shim is given an engine."""

from typing import Any

from hookgate.hooks import Engine, Outcome, SessionContext
from hookgate.hooks.engine import combined_output
from hookgate.hooks.events.reading import read_event
from hookgate.hooks.session_notes import MemoryNotes
from hookgate.shim.decisions import Decision, Json, read_decision


class Local:
    """An engine that the shim owns: it runs in the shim's event loop and is closed with the shim."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._notes = MemoryNotes()

    async def fire(self, event: str, document: Json, *, deliver: bool) -> Decision:
        """Return the hooks' decision. `deliver` is ignored: the caller has the context."""
        session = SessionContext(
            document["session_id"], document["transcript_path"], cwd=document["cwd"], notes=self._notes
        )
        input_event = read_event(event, document)
        outcome: Outcome[Any] = await self._engine.fire(input_event, session)
        return read_decision(event, combined_output(input_event, outcome))

    async def close(self) -> None:
        await self._engine.close()
