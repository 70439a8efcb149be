"""Events fired at an engine in this process. Only who has an engine imports this."""

from typing import Any

from hookgate.hooks import Engine, Outcome, Session
from hookgate.hooks.answering import output_of
from hookgate.hooks.events.reading import event_of
from hookgate.shim.decisions import Decision, Json, read_decision


class Local:
    """An engine, which belongs to the shim from now on: it runs in the shim's loop and is closed with it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def fire(self, event: str, document: Json, *, deliver: bool) -> Decision:
        """What the hooks decide. `deliver` has nobody to deliver, and the caller has the context anyway."""
        session = Session(document["session_id"], document["transcript_path"], cwd=document["cwd"])
        happened = event_of(event, document)
        outcome: Outcome[Any] = await self._engine.fire(happened, session)
        return read_decision(event, output_of(happened, outcome))

    async def close(self) -> None:
        await self._engine.close()
