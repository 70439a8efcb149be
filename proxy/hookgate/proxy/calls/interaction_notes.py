"""Notes the interactions that calls create, and finds those that calls continue, read, cancel or delete."""

from typing import TYPE_CHECKING, Any

from hookgate.proxy.calls.context import CallContext
from hookgate.proxy.errors import ApiError
from hookgate.proxy.observe.content import CallObserver
from hookgate.proxy.sessions.interactions import MAX_TURN_BYTES, interaction_name
from hookgate.translator import join_events
from hookgate.translator.fields import JsonObject, read, read_list, read_object
from hookgate.translator.interactions import has_ended
from hookgate.translator.strictjson import dumps

if TYPE_CHECKING:  # it imports SQLAlchemy, which only calls of the Interactions API need
    from hookgate.proxy.store.interactions import StoredInteraction

_MAX_EVENTS_BYTES = 8 * MAX_TURN_BYTES
"""Bytes of the events of an answer that are joined. An event has more bytes than its text."""

_UNKNOWN = (
    "{}: no interaction with this ID that was created with your key has passed this gateway's hooks. {}"
)
_CONTINUE = "Begin a new one; if it runs in the background, read its answer first."
_READ = "Check the ID and the key."


async def find_earlier(context: CallContext, id_: str, field: str = "") -> "StoredInteraction | None":
    """Return what is known of an interaction, whose session becomes that of a call that names none.

    `field` is the one that names an interaction to continue, whose turns must all have passed. Raises
    ApiError (403) if it is unknown and such interactions are refused, or if that cannot be read.
    """
    services = context.services
    found = await services.interactions.find(context.caller.key, interaction_name(context.route, id_))
    suffices = found is not None and (found.has_passed or not field)
    if services.config.routes.unknown_interactions == "refuse" and not suffices:
        message = _UNKNOWN.format(field or "interaction", _CONTINUE if field else _READ)
        raise ApiError(403, message, "INTERACTION_UNKNOWN")
    if found is not None:
        context.earlier_session = found.session
    return found


async def shown_earlier(context: CallContext, earlier: "StoredInteraction | None") -> JsonObject:
    """Return what hooks are shown of the interaction that a call continues. Raises ApiError (403)."""
    if earlier is None or not earlier.has_passed:
        return {"known": False}
    shown: JsonObject = {"known": True, "revision": earlier.revision}
    turns = await context.services.interactions.turns(earlier.key, earlier.name)
    return shown if turns is None else {**shown, "contents": turns}


class InteractionNotes(CallObserver):
    """Notes the interaction that a call creates, or reads, before the client receives its answer.

    It counts as passed only once its whole answer has passed the hooks.
    """

    __slots__ = (
        *("_answer", "_answer_size", "_context", "_continued", "_name", "_previous", "_read", "_request"),
    )

    def __init__(
        self,
        context: CallContext,
        *,
        continued: "StoredInteraction | None" = None,
        read_: "StoredInteraction | None" = None,
    ) -> None:
        """`continued` is the interaction that the new one continues, `read_` the one that is read instead."""
        self._context, self._continued, self._read = context, continued, read_
        self._name = None if read_ is None else read_.name
        self._previous: Any = None
        self._request: bytes | None = None
        self._answer: list[JsonObject] = []
        self._answer_size = 0

    def on_upstream_request(self, model: str, body: JsonObject, request: JsonObject) -> None:
        self._previous = read(body, "previousInteractionId")
        self._request = self._stored(read_list(request, "contents"))

    def begin_answer(self) -> None:
        self._answer, self._answer_size = [], 0
        if self._read is None:
            self._name = None

    async def on_response(self, response: JsonObject) -> None:
        """Note what a whole answer, or an event, shows. It has passed all hooks and is sent next."""
        interactions, key = self._context.services.interactions, self._context.caller.key
        if interactions.keeps_content and self._answer_size <= _MAX_EVENTS_BYTES:
            self._answer_size += len(dumps(read_list(response, "candidates")))
            self._answer.append(response)
        ended = has_ended(response)
        # The tokens of an interaction that is read are counted elsewhere, and only once.
        is_counted = ended and self._read is None and "usageMetadata" in response
        if self._name is None:
            await self._create(response, passed=ended, counted=is_counted)
        elif ended and not (self._read and self._read.passed):
            answer = self._stored_answer()
            await interactions.pass_answer(key, self._name, counted=is_counted, answer=answer)

    async def _create(self, response: JsonObject, *, passed: bool, counted: bool) -> None:
        from hookgate.proxy.store.interactions import StoredInteraction  # noqa: PLC0415  # see above

        context, previous = self._context, self._previous
        id_ = response.get("id") or read_object(response, "interaction").get("id")
        self._name = interaction_name(context.route, id_) if isinstance(id_, str) else None
        if self._name is None or context.record.session is None:
            return
        before = interaction_name(context.route, previous) if isinstance(previous, str) else None
        continued = self._continued
        continues_known = continued is not None and continued.name == before and continued.has_passed
        await context.services.interactions.keep(
            StoredInteraction(
                key=context.caller.key,
                name=self._name,
                session=context.record.session.session_id,
                revision=context.record.revision,
                previous=before,
                continues_known=previous is None or continues_known,
                passed=passed,
                counted=counted,
                request=self._request,
                answer=self._stored_answer() if passed else None,
            )
        )

    def _stored_answer(self) -> bytes | None:
        if self._answer_size > _MAX_EVENTS_BYTES:
            return None
        candidates = read_list(join_events(self._answer), "candidates") if self._answer else []
        return self._stored([content for each in candidates if (content := read_object(each, "content"))])

    def _stored(self, turns: list[Any]) -> bytes | None:
        """Return turns as they are stored, or None if they are not."""
        if not self._context.services.interactions.keeps_content:
            return None
        data = dumps(turns)
        return data if len(data) <= MAX_TURN_BYTES else None
