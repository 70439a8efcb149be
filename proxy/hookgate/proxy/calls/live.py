"""Live sessions: a WebSocket whose messages hooks judge, in both directions.

A server sends text and speech in pieces. They are held back until they are complete, and then judged together
with the transcription of the speech, so that a client receives neither before it was judged. What a client
says is sent on at once, and judged together with what it has said before.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeVar

from aiohttp import WSCloseCode, web

from hookgate.hooks import AfterModel, AfterTool, BeforeModel, BeforeTool, Engine, Verdict
from hookgate.hooks.events.base import SharedValue
from hookgate.proxy.calls.answer_reading import checked_answer, unreadable_answer
from hookgate.proxy.calls.call import Call
from hookgate.proxy.calls.endings import Ended, Replacement
from hookgate.proxy.calls.exchange import error_for_client
from hookgate.proxy.calls.judge import Judge
from hookgate.proxy.calls.request import names_to_call, select_tools
from hookgate.proxy.calls.session_events import ToolResultEvents, mark_context
from hookgate.proxy.calls.tools import (
    BLOCKED,
    AllowedTools,
    BlockedCall,
    DeclaredTools,
    ToolCallEvents,
    ToolCallRule,
    apply_rules,
)
from hookgate.proxy.calls.websockets import (
    Close,
    Side,
    Socket,
    open_sockets,
    relay,
    run_until_closed,
)
from hookgate.proxy.errors import ApiError, StoreError, body_refused, policy_denied
from hookgate.proxy.keys.callers import is_ephemeral
from hookgate.proxy.observe.answer_meter import passing_use
from hookgate.proxy.observe.usage import NO_USAGE, read_usage
from hookgate.proxy.routes.dialects.generate_content import check_references, named_model, with_model
from hookgate.proxy.server.bodies import TOO_MANY, work_of
from hookgate.proxy.server.websocket_frames import MAX_MESSAGE
from hookgate.proxy.sessions.memory import tool_results
from hookgate.proxy.upstream.key_mask import KeyMask
from hookgate.translator import (
    BodyError,
    DeclaredNames,
    EditError,
    declared_descriptions,
    declared_names,
    show_request,
)
from hookgate.translator.checks import check_items
from hookgate.translator.fields import (
    JsonObject,
    is_larger,
    joined_text,
    read,
    read_list,
    read_object,
    same,
    same_items,
    write,
)
from hookgate.translator.live import (
    ClientMessage,
    ClientText,
    ModelTurn,
    Segment,
    ServerMessage,
    blocked_calls,
    one_turn,
    with_transcriptions,
)
from hookgate.translator.strictjson import Bounds, dumps, encode_answer, loads

log = logging.getLogger("hookgate.gateway")

T = TypeVar("T")
M = TypeVar("M", ClientMessage, ServerMessage)

_NO_PLACE = "A hook's edit cannot be sent in a Live session: {}"
_NO_TOKENS = (
    "hookgate cannot judge sessions with ephemeral tokens: a token can contain a setup that no hook has "
    "seen. Connect with a key."
)
_UNCHECKED = "The limits of this session cannot be checked now. Try again later."
_COUNTS = ("audio_in", "untranscribed_in", "media_out", "untranscribed_out")
"""The names of the receipt's counts of bytes of speech."""
_MAX_REASON = 123
"""The largest reason for closing a WebSocket, in bytes."""
_MAX_HELD = 10_000
"""The number of messages of a server that are held back."""
_QUICK_RESTORED = 2 * 1024
"""The size of a larger answer in which pseudonyms are restored in a thread."""
_MOST_AT_ONCE, _SIZE_AT_ONCE = 256, 64 * 1024
"""The number and the size of a client's messages that are judged together."""
_MAX_CALLS = 1000
"""The number of tool calls that are remembered for their results and cancellations."""


class LiveSession:
    """Judges one Live session. All of its hooks run with one engine, and it is one call for policies."""

    def __init__(self, call: Call, engine: Engine) -> None:
        self._call, self._engine, self._record = call, engine, call.record
        limits = call.services.config.limits
        self._bounds = Bounds(limits.text, limits.values)
        self._most_items = limits.items
        self._judge: Judge
        self._tool_judge: Judge  # of tool calls and their results
        self._client: Socket
        self._upstream: Socket
        self._mask: KeyMask | None = None
        self._model = ""
        self._shown_request = SharedValue({})
        self._rules: list[ToolCallRule] = []
        self._client_text = ClientText()
        self._judging = asyncio.Lock()  # what the client writes and what it speaks are one text
        self._known_calls: dict[str, JsonObject] = {}  # calls that the client has received, by their IDs
        self._result_events: ToolResultEvents | None = None
        self._held: list[tuple[ServerMessage, bytes | None]] = []
        self._held_bytes = self._held_work = 0
        self._work = {"in": 0, "out": 0}  # of what is judged now in each direction
        self._has_speech = self._has_transcription = False  # among the messages that are held
        self._judged_bytes = 0
        self._turn = ModelTurn()
        self._config: JsonObject = {}  # the generationConfig of the setup
        self._unreported = NO_USAGE  # an estimate for what has passed since the last usage
        self._counted = NO_USAGE  # what of that has been counted already

    async def run(self) -> web.StreamResponse:
        """Run the session until either side closes. Raises ApiError if it does not begin."""
        call = self._call
        if is_ephemeral(call.route, call.request.headers):
            raise ApiError(403, _NO_TOKENS, "ROUTE_NOT_ALLOWED")
        self._judge, open_session = await call.begin(self._engine, {})
        open_session.raise_if_stopped()
        reported = call.reported_kinds(open_session)
        self._tool_judge = self._judge.of_derived("tools", reported)
        if self._tool_judge.listens_to(AfterTool.name):
            self._result_events = ToolResultEvents(self._tool_judge, "tools" not in reported)
        self._record.live = dict.fromkeys(_COUNTS, 0)
        async with open_sockets(call, offers_protocols=False) as (client, upstream, mask):
            self._client, self._upstream, self._mask = client, upstream, mask
            client_side, upstream_side = Side(client), Side(upstream)
            receive = partial(self._from_client, client_side)
            inward = self._inward(client_side, relay(call.steps, client_side, upstream_side, receive))
            outward = self._outward(relay(call.steps, upstream_side, client_side, self._from_upstream, mask))
            try:
                await run_until_closed(call, client, upstream, self._closing(inward), self._closing(outward))
            finally:
                self._record.estimated_usage += self._unreported - self._counted
        return client

    async def _inward(self, side: Side, relayed: Awaitable[Close]) -> Close:
        """Return how the client ends the session, without its reason, which no hook judges."""
        try:
            code, _ = await relayed
        finally:
            side.stop()
        return code, b""

    async def _outward(self, relayed: Awaitable[Close]) -> Close:
        """Return how the upstream ends the session. Its reason is redacted like an error."""
        code, reason = await relayed
        self._judge.session.call_state.cut_off = True  # what is held belongs to a turn that has not ended
        await self._release()
        if reason:
            reason = await error_for_client(self._judge, self._model, reason)
        return code, _close_reason(reason)

    async def _closing(self, direction: Awaitable[Close]) -> Close:
        """Return how a direction ends; a refusal closes both sides with its reason."""
        record = self._record
        try:
            end = await direction
            record.outcome = record.outcome or ("blocked" if record.blocked_count else "answered")
            return end
        except SessionStoppedError as stop:
            reason = str(stop)
        except ApiError as error:
            self._call.services.note_error(record, error)
            record.outcome = record.outcome or "refused"
            reason = error.message
        return WSCloseCode.POLICY_VIOLATION, _close_reason(reason.encode())

    # ---- the client's messages

    async def _from_client(self, side: Side, message: str | bytes) -> None:
        """Judge and send a message of the client, with others that have arrived.

        Raises ApiError or SessionStoppedError if the session ends here.
        """
        messages = [message, *await side.arrived(_MOST_AT_ONCE - 1, _SIZE_AT_ONCE)]
        texts: list[_Arrived] = []  # which can be judged together
        for each in messages:
            try:
                arrived = await self._read_message(each)
            except ApiError:
                await self._send_texts(texts)
                raise
            if texts and not (arrived.sent.is_text and arrived.sent.continues(texts[-1].sent)):
                await self._send_texts(texts)
                texts = []
            if arrived.sent.is_text:
                texts.append(arrived)
            else:
                await self._send_upstream(arrived, await self._judge_message(arrived))
        await self._send_texts(texts)
        self._call.request.incoming.release(len(messages))

    async def _read_message(self, message: str | bytes) -> "_Arrived":
        """Read a message of the client. Raises ApiError if it is refused."""
        data = _bytes_of(message)
        work = work_of(data)
        try:
            parsed, sent = await self._parse(data, work, self._client_message)
        except BodyError as error:
            raise body_refused(error) from None
        if (sent.kind == "setup") == bool(self._model):
            raise body_refused("a session must begin with one setup")
        self._record.live["audio_in"] += sent.audio_bytes
        self._record.live["untranscribed_in"] += sent.audio_bytes
        return _Arrived(message, data, work, parsed, sent)

    def _client_message(self, message: object) -> ClientMessage:
        sent = ClientMessage(message)
        check_items(sent.request, self._most_items, TOO_MANY)
        return sent

    async def _send_texts(self, texts: Sequence["_Arrived"]) -> None:
        """Judge and send texts that follow each other, together as long as hooks leave them alone.

        Each half of those that hooks edit is judged again, so that edits are made message by message. Raises
        ApiError or SessionStoppedError.
        """
        if len(texts) == 1:
            await self._send_upstream(texts[0], await self._judge_message(texts[0]))
        elif texts:
            joined = one_turn([each.sent for each in texts])
            self._note_work("in", sum(each.work for each in texts))
            if await self._are_left_alone(joined, sum(len(each.data) for each in texts)):
                for each in texts:
                    await self._send_upstream(each, each.sent.message)
            else:
                half = len(texts) // 2
                await self._send_texts(texts[:half])
                await self._send_texts(texts[half:])

    async def _are_left_alone(self, request: JsonObject, size: int) -> bool:
        """Return whether BeforeModel hooks leave alone what a client says. Raises ApiError if they end it."""
        await self._call.steps.pause()
        self._count_text(size + self._client_text.size)
        async with self._judging:
            shown, edited = await self._shown_to_hooks(request, size)
            if not await self._call.steps.run(same, edited, shown):
                return False
            self._client_text.latest(request, shown, shown)
            return True

    async def _judge_message(self, arrived: "_Arrived") -> JsonObject:
        """Return what hooks leave of a message. Raises ApiError or SessionStoppedError."""
        sent, size, steps = arrived.sent, len(arrived.data), self._call.steps
        if sent.request is None:
            return sent.message
        await steps.pause()
        self._count_text(size + self._client_text.size)
        self._note_work("in", arrived.work)
        await steps.run(check_references, sent.request, self._call.services.config)
        try:
            if sent.kind == "setup":
                return await self._set_up(sent)
            request = sent.request
            if self._result_events is not None:
                request = await self._judge_results(request, self._result_events)
            return await steps.run(sent.edited, await self._judge_request(request, size))
        except EditError as error:
            raise _no_place(error, BeforeModel.name) from None

    async def _set_up(self, sent: ClientMessage) -> JsonObject:
        """Return the message that begins the session, after its hooks, with transcriptions of all speech."""
        judge, route, request = self._judge, self._call.route, sent.request or {}
        model = named_model(route, sent.body)
        await self._call.expect_use(self._judge.session, request)
        before = await judge.fire(BeforeModel(model, request))
        judge.raise_if_ended(before.verdict, BeforeModel.name)
        model, request = before.event.model, before.event.body
        await self._call.check_key_limits(model)
        request, allowed = _value_or_raise(await select_tools(judge, model, request))
        if allowed is not None:
            self._rules.append(AllowedTools(allowed, self._record, asks_again=False))
        steps = self._call.steps
        if (names := names_to_call(request)) and self._tool_judge.enforces(BeforeTool.name):
            self._rules.append(DeclaredTools(DeclaredNames(names), self._record))
        if self._tool_judge.listens_to(BeforeTool.name):
            descriptions = await steps.run(declared_descriptions, request)
            self._rules.append(ToolCallEvents(self._tool_judge, descriptions))
        if self._result_events is not None:
            declared = DeclaredNames(await steps.run(declared_names, request))
            self._result_events = replace(self._result_events, names=declared)
        self._model = model
        self._record.note_model(model)
        self._config = read_object(request, "generationConfig")
        edited = await steps.run(sent.edited, request)
        setup = read(edited, "setup")
        return sent.with_body(with_transcriptions(with_model(route, model, setup)))

    async def _judge_results(self, request: JsonObject, events: ToolResultEvents) -> JsonObject:
        """Return the request with its tool results after AfterTool hooks.

        Raises ApiError or SessionStoppedError.
        """
        contents, steps = read_list(request, "contents"), self._call.steps
        judged: dict[int, JsonObject] = {}  # by the IDs of the objects in their place
        for each in await steps.run(tool_results, contents):
            await steps.pause()
            tool_call = each.call or self._known_calls.get(str(read(each.response, "id")), {})
            with steps.judging(each.response):
                judged[id(each.part)] = await _judge_result(each.part, tool_call, events)
        new = [_with_parts(turn, judged) for turn in contents]
        return request if same_items(new, contents) else write(request, "contents", new)

    async def _judge_request(self, request: JsonObject, size: int) -> JsonObject:
        """Return what a client says after BeforeModel hooks. Raises ApiError if they end the session."""
        async with self._judging:
            shown, edited = await self._shown_to_hooks(request, size)
            try:
                return self._client_text.latest(request, shown, edited)
            except EditError as error:
                raise _no_place(error, BeforeModel.name) from None

    async def _shown_to_hooks(self, request: JsonObject, size: int) -> tuple[JsonObject, JsonObject]:
        """Return what BeforeModel hooks are shown of a request, and what they leave of that."""
        await self._call.expect_use(self._judge.session, {**request, "generationConfig": self._config})
        self._count_unreported()
        await self._call.check_key_limits(self._model)
        shown = self._client_text.continued(request)
        event = BeforeModel(self._model, shown)
        outcome = await self._judge.fire(event, size)
        self._judge.raise_if_ended(outcome.verdict, event.name)
        self._shown_request = SharedValue(show_request(self._model, outcome.event.body))
        return shown, outcome.event.body

    def _count_text(self, size: int) -> None:
        """Count judged bytes, also those that are judged again: a session costs no more than one call."""
        self._judged_bytes += size
        most, before = self._call.services.config.limits.body, self._client_text.size
        if self._judged_bytes > most:
            raise body_refused(
                f"the messages of a session must not exceed {most} bytes, with {before} before "
                "each that are judged again, not counting audio"
            )

    async def _send_upstream(self, arrived: "_Arrived", judged: JsonObject) -> None:
        """Send what hooks have left of a message of the client."""
        data = arrived.data
        if judged is not arrived.parsed:
            data = await self._call.steps.run_for(arrived.work, dumps, judged)
        self._unreported += passing_use(len(data), arrived.sent.audio_bytes, is_answer=False)
        await _send(self._upstream, data, as_text=isinstance(arrived.message, str))

    # ---- the server's messages

    async def _from_upstream(self, message: str | bytes) -> None:
        """Hold back one message of the server, and judge all that are held if they are complete."""
        data = _bytes_of(message)
        data = self._mask.data(data) if self._mask else data
        work = work_of(data)
        try:
            parsed, server = await self._parse(data, work, self._server_message)
        except BodyError as error:
            raise unreadable_answer(str(error)) from None
        self._record.live["media_out"] += server.media_bytes
        if server.has_content:
            self._unreported += passing_use(len(data), server.media_bytes, is_answer=True)
        self._count_usage(server.usage)
        self._held.append((server, data if server.message is parsed else None))
        self._held_bytes += len(data)
        self._held_work += work
        self._has_speech = self._has_speech or server.media_bytes > 0
        self._has_transcription = self._has_transcription or server.transcribed("outputTranscription") != ""
        if len(self._held) > _MAX_HELD:
            raise unreadable_answer(f"a turn has more than {_MAX_HELD} messages")
        if self._held_bytes > MAX_MESSAGE:
            raise unreadable_answer(f"a turn has more than {MAX_MESSAGE} bytes")
        if self._is_complete(server):
            await self._release()
        if server.turn_ends:
            self._count_unreported()
        if server.usage or server.turn_ends:  # a client that only speaks sends nothing that is judged
            await self._check_limits()

    def _server_message(self, message: object) -> ServerMessage:
        server = ServerMessage(message, self._known_calls)
        items = {"parts": read_list(server.turn, "parts"), "tool_calls": server.calls}
        check_items(items, self._most_items, TOO_MANY)
        return server

    def _is_complete(self, latest: ServerMessage) -> bool:
        """Return whether the messages that are held back can be judged, including the latest.

        Speech without a transcription waits for it until the turn ends.
        """
        waits = self._held[0][0].has_content  # messages without content do not wait
        if latest.calls or latest.turn_ends or not waits:
            return True
        return latest.generation_ends and (self._has_transcription or not self._has_speech)

    async def _release(self) -> None:
        """Judge the messages that are held, and send them. Raises ApiError or SessionStoppedError."""
        self._note_work("out", self._held_work)
        held, self._held, self._held_bytes, self._held_work = self._held, [], 0, 0
        self._has_speech = self._has_transcription = False
        if not held:
            return
        segment = await self._call.steps.run(Segment, [server for server, _ in held])
        heard = segment.heard
        self._record.live["untranscribed_out"] += segment.untranscribed_bytes
        if heard:
            self._record.live["untranscribed_in"] = 0
            turn = {"role": "user", "parts": [{"text": heard}]}
            judged = await self._judge_request({"contents": [turn]}, len(heard))
            heard = "\n".join(joined_text(each) for each in read_list(judged, "contents"))
        candidates: list[JsonObject] = []
        for kind, candidate in zip(segment.kinds, segment.candidates, strict=True):
            await self._call.steps.pause()
            candidates.append(await self._judge_candidate(kind, candidate))
        if held[-1][0].turn_ends:
            self._turn = ModelTurn()
        called = segment.calls(candidates)
        calls, blocked = await self._judge_calls(called)
        self._remember_calls(calls)
        if heard == segment.heard and same_items([*candidates, *calls], [*segment.candidates, *called]):
            for server, data in held:
                await self._send_to_client(server.message, data)
        else:
            for edited in segment.edited(heard, candidates, calls):
                await self._send_to_client(edited, None)
        if blocked:
            await _send(self._upstream, dumps(blocked_calls(blocked)), as_text=True)
        self._note_work("out", 0)

    async def _judge_candidate(self, kind: str, candidate: JsonObject) -> JsonObject:
        """Return a candidate after AfterModel hooks; the same object if they left it alone."""
        shown = self._turn.continued(kind, candidate)
        response: JsonObject = {"candidates": [shown]}
        await self._call.steps.run(checked_answer, response)  # the client gets it in another form
        event = AfterModel(self._shown_request, response, self._model)
        outcome = await self._judge.fire(event, len(await self._call.steps.run(dumps, response)))
        self._judge.raise_if_ended(outcome.verdict, event.name)
        try:
            judged = self._turn.latest(kind, candidate, shown, _only_candidate(outcome.event.body))
        except EditError as error:
            raise _no_place(error, event.name) from None
        state, answer = self._judge.session.call_state, {"candidates": [judged]}
        if state.client_filters and is_larger(answer, _QUICK_RESTORED):
            return _only_candidate(await state.steps.run_long(state.restore_pseudonyms, answer))
        return _only_candidate(state.restore_pseudonyms(answer))

    async def _judge_calls(
        self, calls: Sequence[JsonObject]
    ) -> tuple[list[JsonObject], list[tuple[JsonObject, str]]]:
        """Return the tool calls that the client may run, and the refused ones, each with the reason."""
        allowed: list[JsonObject] = []
        blocked: list[tuple[JsonObject, str]] = []
        decisions = _value_or_raise(await apply_rules(self._rules, calls, self._call.steps, together=False))
        for tool_call, decided in zip(calls, decisions, strict=True):
            if isinstance(decided, BlockedCall):
                blocked.append((tool_call, BLOCKED.format(decided.reason)))
            else:
                unchanged = same(decided, read_object(tool_call, "args"))
                allowed.append(tool_call if unchanged else {**tool_call, "args": decided})
        return allowed, blocked

    def _remember_calls(self, calls: Sequence[JsonObject]) -> None:
        """Remember calls, which the server may cancel, until others have displaced them.

        Their arguments are kept for AfterTool hooks.
        """
        for call in calls:
            if (name := read(call, "id")) is not None:
                self._known_calls[str(name)] = call if self._result_events is not None else {}
        while len(self._known_calls) > _MAX_CALLS:
            del self._known_calls[next(iter(self._known_calls))]

    async def _send_to_client(self, message: JsonObject, data: bytes | None) -> None:
        """Send a message, or its bytes if they are those that arrived. An empty message is not sent."""
        if message:
            await self._call.steps.pause()
            await _send(self._client, encode_answer(message) if data is None else data, as_text=False)

    # ---- in both directions

    async def _parse(self, data: bytes, work: int, read_message: Callable[[object], M]) -> tuple[object, M]:
        """Return the JSON of a message, and what `read_message` makes of it. Raises BodyError."""

        def parse() -> tuple[object, M]:
            value = loads(data, self._bounds)
            return value, read_message(value)

        return await self._call.steps.run_for(work, parse)

    def _note_work(self, direction: Literal["in", "out"], work: int) -> None:
        """Note the work of what is judged now in a direction: it decides where all steps run."""
        self._work[direction] = work
        self._call.steps.work = max(self._work.values())

    def _count_usage(self, metadata: JsonObject) -> None:
        """Count the tokens of a message. A server counts those of each answer once, with its whole prompt."""
        if metadata:
            self._record.usage += read_usage(metadata)
            self._record.estimated_usage -= self._counted  # the usage includes it
            self._unreported = self._counted = NO_USAGE
            self._call.services.settle_usage(self._record, continues=True)

    def _count_unreported(self) -> None:
        """Count the estimate for what has passed since the last usage, because none may follow."""
        if self._unreported != self._counted:
            self._record.estimated_usage += self._unreported - self._counted
            self._counted = self._unreported
            self._call.services.settle_usage(self._record, continues=True)

    async def _check_limits(self) -> None:
        """Check the limits before the next turn. Raises ApiError or SessionStoppedError if one is reached."""
        await self._call.check_key_limits(self._model)
        for check in self._judge.session.call_state.before_turn.values():
            try:
                reason = await check()
            except StoreError as error:
                log.error("%s", error)
                reason = _UNCHECKED
            if reason:
                _value_or_raise(self._judge.end_with(Verdict("deny", reason=reason)))


@dataclass(frozen=True, slots=True)
class _Arrived:
    """A message of the client: as it was received, its bytes, its JSON, and what hooks are shown of it."""

    message: str | bytes
    data: bytes
    work: int
    """See SMALL_BODY."""
    parsed: object
    sent: ClientMessage


class SessionStoppedError(Exception):
    """Raised where a direction of a session ends because a hook stops the agent. Its text is the reason."""


def _value_or_raise(judged: T | Ended) -> T:
    """Return what hooks have judged. Raises ApiError or SessionStoppedError if they end the session."""
    if isinstance(judged, Replacement):
        raise SessionStoppedError(judged.text)
    if isinstance(judged, ApiError):
        raise judged
    return judged


async def _judge_result(part: JsonObject, tool_call: JsonObject, events: ToolResultEvents) -> JsonObject:
    """Return the part of a tool's result after AfterTool hooks; the same object if they left it alone."""
    result = read_object(part, "functionResponse")
    effect = _value_or_raise(await events.judge_result(tool_call, part))
    new = effect.response or result
    if effect.contexts:  # messages with results may contain nothing else
        context = "\n".join(map(mark_context, effect.contexts))
        new = write(new, "response", {**read_object(new, "response"), "hook_context": context})
    if effect.withheld:  # its other fields belong to the result
        return {"functionResponse": new}
    return part if new is result else write(part, "functionResponse", new)


def _with_parts(turn: JsonObject, judged: Mapping[int, JsonObject]) -> JsonObject:
    """Return the turn with judged parts in place of the objects with these IDs."""
    parts = read_list(turn, "parts")
    new = [judged.get(id(part), part) for part in parts]
    return turn if same_items(new, parts) else write(turn, "parts", new)


def _no_place(error: EditError, event: str) -> ApiError:
    """Return the refusal of an edit that a hook made at an event."""
    return policy_denied(_NO_PLACE.format(error), event)


def _only_candidate(response: JsonObject) -> JsonObject:
    candidates: list[JsonObject] = read_list(response, "candidates")
    return candidates[0] if candidates else {}


def _close_reason(reason: bytes) -> bytes:
    """Return as much of a reason as fits when a WebSocket is closed."""
    return reason[:_MAX_REASON].decode(errors="ignore").encode()


def _bytes_of(message: str | bytes) -> bytes:
    return message.encode() if isinstance(message, str) else message


async def _send(socket: Socket, data: bytes, *, as_text: bool) -> None:
    if as_text:
        await socket.send_str(data.decode())
    else:
        await socket.send_bytes(data)
