"""One recorded call before the hooks of another policy, without any upstream."""

from hookgate.hooks import AfterModel, BeforeModel, BeforeTool, BeforeToolSelection, Engine
from hookgate.hooks.document import Encoded
from hookgate.hooks.events.reading import event_of
from hookgate.proxy.records import CallRecord, Firing
from hookgate.proxy.replay.recorded import Recorded
from hookgate.translator import CallGate, show_request
from hookgate.translator.fields import JsonObject, read_object


async def replayed(engine: Engine, recorded: Recorded) -> CallRecord:
    """The record that the call would have had. Raises ValueError for an event that cannot be read."""
    record = CallRecord(id=recorded.id, model=recorded.model, session=recorded.session)
    firing = Firing(engine, record)
    if recorded.event:
        event = event_of(recorded.event, recorded.request or {})
        await firing.fire(event, recorded.session)
    else:
        await _call(firing, recorded, recorded.request or {})
    record.outcome = record.outcome or "answered"
    return record


async def _call(firing: Firing, recorded: Recorded, body: JsonObject) -> None:
    """The hooks of a call in their order, until one of them ends it."""
    session, record = recorded.session, firing.record
    before = (await firing.fire(BeforeModel(recorded.model, body), session)).event
    if record.outcome is not None:
        return
    await firing.fire(BeforeToolSelection(before.model, before.body), session)
    if record.outcome is not None or recorded.answer is None:
        return
    shown = Encoded(show_request(before.model, before.body))
    after = await firing.fire(AfterModel(shown, recorded.answer, before.model), session)
    if record.outcome is None:
        for call in CallGate().begun(after.event.body):
            await firing.fire(BeforeTool(str(call.get("name") or ""), read_object(call, "args")), session)
