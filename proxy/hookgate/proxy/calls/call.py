"""One request until its answer ends: who makes it, what it is sent with, and where its steps run."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from hookgate.hooks import Engine, SessionContext
from hookgate.hooks.policies.estimates import estimate_all
from hookgate.hooks.session import ExpectedUse
from hookgate.proxy.calls.answer_reading import AnswerLease
from hookgate.proxy.calls.judge import Judge, create_call_state
from hookgate.proxy.calls.pacing import CallSteps
from hookgate.proxy.calls.services import GatewayServices
from hookgate.proxy.keys.callers import named_session
from hookgate.proxy.observe import logs
from hookgate.proxy.observe.content import CallObserver
from hookgate.proxy.observe.record import CallRecord
from hookgate.proxy.routes.table import Route, with_gateway_credential
from hookgate.proxy.server.bodies import read_bytes, read_request
from hookgate.proxy.server.connection import Request
from hookgate.proxy.sessions.sessions import SHIM_HEADER, OpenSession, ReportedKind, text_fingerprint
from hookgate.proxy.upstream.client import UpstreamAnswer
from hookgate.proxy.upstream.fail_over import FailOver
from hookgate.translator.fields import JsonObject, read, read_list, texts_of
from hookgate.translator.known_turns import RequestTurns

if TYPE_CHECKING:  # they import SQLAlchemy, which only some settings need
    from hookgate.proxy.keys.issued import Admission
    from hookgate.proxy.keys.scopes import IssuedKey
    from hookgate.proxy.store.interactions import StoredInteraction


class Call:
    """The context of one request of a client: who makes it, its route, and how it goes upstream."""

    def __init__(
        self,
        request: Request,
        record: CallRecord,
        route: Route,
        services: GatewayServices,
        issued: "IssuedKey | None" = None,
    ) -> None:
        """`issued` is the key of the request, if it is one that a gateway has issued.

        Raises ApiError if the session name is invalid.
        """
        self.request, self.record, self.route, self.services = request, record, route, services
        self.caller = services.callers.caller_for(route, request.headers, issued)
        self.named_session = named_session(route, request.headers)
        """The session name in the path or header; empty if there is none."""
        self.earlier_interaction: StoredInteraction | None = None
        """The interaction that the call continues or reads, as far as it is known."""
        self.cached_content = ""
        """The name of the cached contents to which the request refers."""
        self.observers: list[CallObserver] = []
        """Observers of the call's content. Usually empty."""
        self._admission: Admission | None = None
        request.note_caller(self.caller.key, self.named_session or request.id)
        self.steps = CallSteps(request.body_worker, services.long_steps, services.slices, request.queue_key)
        """Runs the steps of this call."""
        self.answer_memory: AnswerLease
        """The memory of the current answer."""

    # ---- the caller

    async def admit(self) -> None:
        """Check whether the caller may make this call. Raises ApiError (403) if not."""
        services, issued = self.services, self.caller.issued
        if issued is None or services.issued_keys is None:
            services.callers.admit(self.route, self.request.headers)
            return
        route = with_gateway_credential(self.route, issued.team)
        refusal = services.upstreams.refusal(route)
        self._admission = await services.issued_keys.admit(issued, self.route, refusal, services.rerouted)
        if self._admission is not None:
            self.record.at_use, self.record.at_end = self._admission.at_use, self._admission.end
            self.record.key_limits = self._admission.limits
        self.route = route

    async def check_key_again(self) -> None:
        """Check the caller's issued key again after its body has arrived. Raises ApiError (403)."""
        if self._admission is not None:
            await self._admission.check_again()

    async def key_withdrawn(self) -> None:
        """Wait until the caller's issued key is no longer valid."""
        keys, issued = self.services.issued_keys, self.caller.issued
        if keys is not None and issued is not None:
            await keys.withdrawn(issued)

    # ---- the request

    async def read_body(self, *, has_turns: bool = False) -> JsonObject:
        """Return the request's body, a JSON object, and record its size. Raises ApiError.

        With `has_turns`, the turns with which an earlier request began are not parsed again.
        """
        body = await read_request(self.request, has_turns=has_turns)
        self._record_size()
        return body

    async def read_data(self) -> bytes:
        """Return the bytes of the request's body, and record their number. Raises ApiError (403, 413)."""
        data = await read_bytes(self.request)
        self._record_size()
        return data

    def _record_size(self) -> None:
        self.record.request_bytes, self.steps.work = self.request.body_size, self.request.body_work

    @property
    def turns(self) -> RequestTurns:
        """The turns at the beginning of the body, some of which may be known from an earlier request."""
        return self.request.turns

    def remember_turns(self, request: JsonObject) -> None:
        """Remember the turns of a request in the body, which has passed all checks, for later ones."""
        self.request.body_worker.turns.remember(self.caller.key, self.turns.matching(request))

    def begin_streaming(self) -> None:
        """Note that the answer is streamed, because the body of the request says so."""
        self.route = self.route.as_stream()
        self.record.streamed = True
        if self.record.content is not None:
            self.record.content.route = self.route

    async def name_model(self, model: str) -> None:
        """Record the model that the request names, or the one that a hook has chosen instead.

        Raises ApiError (403) if the caller's issued key may not be used for it.
        """
        self.record.note_model(model)
        if self._admission is not None:
            await self._admission.name_model(model)

    # ---- the session

    async def begin(
        self, engine: Engine, body: JsonObject, session_in_body: str = "", *, generates: bool = False
    ) -> tuple[Judge, OpenSession]:
        """Find the session of a model call, and begin to record the call. Returns its judge and its session.

        A call without a session name belongs to the session that a shim announced, or else to that of the
        interaction that it continues, or of its conversation. `session_in_body` is the name in its body,
        which is used if neither path nor header has one. If the call generates content, limits hold what the
        request in `body` is expected to use. Raises ApiError if sessions cannot be read.
        """
        name = self.named_session or session_in_body
        session, texts = await self.steps.run(self._describe, body, name, generates)
        open_session = await self.services.sessions.open(session, texts)
        session = replace(open_session.session, notes=self.services.sessions)
        if self.services.transcripts is not None:
            session = self.services.transcripts.located(session)
        self.note_session(session)
        if self.services.audit is not None:
            self.services.audit.queue_start(self.record)
        approvals = self.services.approvals
        return Judge.of_call(engine, self.record, session, body, approvals), open_session

    def _describe(
        self, body: JsonObject, name: str, generates: bool
    ) -> tuple[SessionContext, list[str] | None]:
        """Return the session of a model call, and the fingerprints of its last turn if it names none."""
        contents, caller = read_list(body, "contents"), self.caller
        state = create_call_state(self.route, body, generates=generates, turns=self.turns)
        if self.route.credential_team is not None:
            state.apis = self.services.upstreams.apis(self.route)
        state.steps, state.rerouted, state.model = self.steps, self.services.rerouted, self.record.model
        if generates:
            state.expected = self._with_stored(state.expected, [body])
        earlier_session = "" if self.earlier_interaction is None else self.earlier_interaction.session
        session = caller.in_session(name or earlier_session or caller.conversation_id(contents), state)
        if name:
            return session, None
        last = contents[-1] if contents else None
        # Inputs are checked one by one later, so it may be anything.
        return session, [text_fingerprint(text) for text in texts_of(last)] if isinstance(last, dict) else []

    def note_session(self, session: SessionContext) -> None:
        """Note to which session the call belongs, in its record and its line of the log."""
        self.record.note_session(session)
        logs.note_session(session.session_id)

    def reported_kinds(self, open_session: OpenSession) -> Collection[ReportedKind]:
        """Return the kinds of events that a shim has sent so far, or claims to report in this call."""
        if not self.services.config.shims.believed:
            return ()
        return open_session.state.reported_kinds(self.request.headers.get(SHIM_HEADER, ""))

    # ---- what it is expected to use

    async def expect_use(
        self, session: SessionContext, *requests: JsonObject, generates: bool = True
    ) -> None:
        """Estimate what a call with these requests will use. Limits hold that until the call has ended."""
        expected = await self.steps.run(estimate_all, requests, generates)
        session.call_state.expected = self._with_stored(expected, requests)

    def _with_stored(self, expected: ExpectedUse, requests: Sequence[JsonObject]) -> ExpectedUse:
        """Add the tokens of what the API has stored and the requests refer to, as far as they are known."""
        tokens = 0 if self.earlier_interaction is None else self.earlier_interaction.tokens
        for request in requests:
            if isinstance(name := read(request, "cachedContent"), str):
                self.cached_content = name
                tokens += self.services.cached_tokens.get(name, 0)
        return replace(expected, input_tokens=expected.input_tokens + tokens) if tokens else expected

    async def check_key_limits(self, model: str) -> None:
        """Check the limits of the caller's issued key for the next turn of a Live session.

        What the turn is expected to use is held. Raises ApiError (403).
        """
        if self._admission is not None:
            await self._admission.check_limits(model, self.record.expected_use())

    # ---- the upstream

    @asynccontextmanager
    async def send(
        self,
        route: Route,
        headers: Mapping[str, str],
        data: bytes | AsyncIterable[bytes] | None = None,
        *,
        decompress: bool = True,
    ) -> AsyncIterator[UpstreamAnswer]:
        """Send the request upstream and yield the answer before its body is read.

        Raises ApiError if there is no answer, and before sending if the start of the call cannot be recorded
        or the key is no longer valid, which also ends the reading of the answer. Raises UpstreamError
        if reading it fails.
        """
        if self._admission is not None:
            await self._admission.hold(self.record.expected_use())
        await self.services.record_start(self.record)
        self.record.note_sending()
        await self.check_key_again()
        upstreams, method = self.services.upstreams, self.request.method
        if named := upstreams.named_headers(self.request.headers):
            headers = {**headers, **named}
        with AnswerLease(self.request.body_worker) as self.answer_memory:
            if route.credential_team is not None:
                attempts = FailOver(
                    upstreams, self.record, method, route, self.steps.run, decompress=decompress
                )
                async with attempts.final_answer(headers, data) as answer, self._while_key_is_valid(answer):
                    yield answer
                return
            with self.record.attempt() as attempt:
                async with upstreams.exchange(
                    attempt, method, route, headers, data, decompress=decompress
                ) as answer:
                    yield answer

    @asynccontextmanager
    async def _while_key_is_valid(self, answer: UpstreamAnswer) -> AsyncIterator[None]:
        """Within the block, reading the answer raises ApiError (403) once the caller's key is withdrawn.

        A token is not watched: it cannot be revoked, and an answer may end after it has expired.
        """
        if self.caller.issued is None or self.caller.issued.is_token:
            yield
            return
        read, withdrawal = answer.read, asyncio.create_task(self.key_withdrawn())

        async def read_if_valid() -> bytes:
            data = await read()
            if withdrawal.done():
                await self.check_key_again()
            return data

        answer.read = read_if_valid
        try:
            yield
        finally:
            withdrawal.cancel()
