"""The engine as one call uses it: whatever hooks do is noted in the call's record."""

from typing import TypeVar

from hookgate.hooks import AfterModel, Engine, Event, Outcome, Session
from hookgate.hooks.screening import HookScreen
from hookgate.hooks.settings import StreamMode
from hookgate.proxy.records.record import CallRecord

E = TypeVar("E", bound=Event)


class Firing:
    """One call's engine."""

    def __init__(self, engine: Engine, record: CallRecord) -> None:
        self._engine, self.record = engine, record
        record.revision = engine.revision

    def listens_to(self, event: str) -> bool:
        """Whether any hook is configured for the event."""
        return self._engine.listens_to(event)

    async def fire(self, event: E, session: Session, size: int | None = None) -> Outcome[E]:
        """Run the event's hooks. `size` is that of the body they are shown; the request's if left out."""
        outcome = await self._engine.fire(event, session)
        self.record.note_runs(event.name, outcome.runs, self.record.request_bytes if size is None else size)
        self.record.note_verdict(event.name, outcome.verdict)
        return outcome

    def stream_modes(self, event: AfterModel, session: Session) -> dict[StreamMode, int]:
        """The modes of the hooks that run for a streamed answer, each with its window."""
        return self._engine.stream_modes(event, session)

    def screens(self, event: AfterModel, session: Session) -> list[HookScreen]:
        """What a streamed answer passes first. Each is given back with `screened`."""
        return self._engine.screens(event, session)

    def screened(self, screen: HookScreen, session: Session, size: int) -> None:
        """A screen has seen the last of an answer, of so many bytes."""
        run = screen.run()
        self._engine.record(AfterModel.name, [run], session)
        self.record.note_runs(AfterModel.name, [run], size)
        if run.enforced_denial:
            self.record.outcome = "denied"
            self.record.reasons[AfterModel.name] = str((run.said() or {}).get("reason") or "")
