"""What an admin does about a call: revokes its key, stops its session, and changes the pushed policy."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from hookgate.hooks import SessionContext, SettingsError
from hookgate.hooks.settings.editing import TextChange, has_hook, with_allowed, with_disabled, with_mode
from hookgate.proxy.admin.calls import Calls
from hookgate.proxy.admin.roles import Person
from hookgate.proxy.audit.reading import CallDetail
from hookgate.proxy.errors import ApiError
from hookgate.proxy.keys.table import KeyTable
from hookgate.proxy.observe.record import CALL_ID
from hookgate.proxy.policy import PushedPolicy
from hookgate.proxy.policy.table import PolicyRevision, StaleRevisionError
from hookgate.proxy.sessions.sessions import Sessions, SessionState
from hookgate.translator.fields import JsonObject

_STOPPED = "The operator of this gateway has stopped this session. Begin a new one."
_LONGEST_REASON = 500
_NO_KEYS = "This gateway issues no keys. Remove the key from [keys] in hookgate.toml, and restart it."
_NOT_PUSHED = (
    "The policy of this gateway is in files, not in the database. {remedy}; or push a policy with hookgate "
    "policy push, so that it can be changed here."
)


@dataclass(frozen=True, slots=True)
class Action:
    """A change that is recorded before it is made: its name, what it is about, and how it is made."""

    name: str
    about: JsonObject
    make: Callable[[], Awaitable[JsonObject]]


PlanAction = Callable[[JsonObject, Person], Awaitable[Action]]
"""Returns what the body of a request asks somebody's change to be. Raises ApiError."""


TryHooks = Callable[[CallDetail, str], Awaitable[JsonObject]]
"""Runs the hooks in force, or those of a name, on a recorded call. Raises ApiError."""


class Comparisons(Protocol):
    """Compares a policy with what was decided, in the background, one at a time."""

    async def describe(self) -> JsonObject:
        """Return the revisions to choose from, and the latest comparison with its result so far."""

    async def plan(self, text: str, revision: int | None, by: str) -> Callable[[], Awaitable[JsonObject]]:
        """Return what starts a comparison with the calls of a query. Raises ApiError if that is not possible.

        `revision` is the number of one of the pushed policy; None means the settings now in force.
        """

    async def stop(self) -> JsonObject:
        """Stop the comparison that runs, if there is one, and return the same as `describe`."""

    async def close(self) -> None:
        """Stop the comparison that runs, if there is one."""


@dataclass(frozen=True, slots=True)
class Actions:
    """What people do. Each function plans a change, and changes nothing yet."""

    sessions: Sessions
    keys: KeyTable | None
    """The issued keys, if the gateway accepts any."""
    pushed: PushedPolicy | None
    check_policy: Callable[[str], None]
    """Raises SettingsError for a policy that this gateway could not use."""
    calls: Calls
    try_hooks: TryHooks
    comparisons: Comparisons
    trying: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while hooks are tried: one call at a time, however many people ask."""

    def plans(self) -> dict[str, PlanAction]:
        """Return the routes with which changes are made."""
        return {
            "POST /api/keys/revoke": self._revoke_key,
            "POST /api/sessions/stop": self._stop_session,
            "POST /api/policy/allow": self._allow_finding,
            "POST /api/policy/hook": self._set_hook,
            "POST /api/hooks/try": self._try_hooks,
            "POST /api/hooks/compare": self._compare,
            "POST /api/hooks/compare/stop": self._stop_comparing,
        }

    async def _try_hooks(self, body: JsonObject, _: Person) -> Action:
        call, hook = _text(body, "id"), _text(body, "hook") if body.get("hook") else ""
        if not CALL_ID.fullmatch(call):
            raise ApiError(400, "id: must be the ID of a call's receipt, 32 hexadecimal digits")
        found = await asyncio.to_thread(self.calls.records, call)
        if found is None:
            raise ApiError(404, "There is no such call in the audit: its ID is unknown, or it is too old.")
        detail = found

        async def make() -> JsonObject:
            if self.trying.locked():
                raise ApiError(429, "Hooks are being tried on another call; wait until that has ended.")
            async with self.trying:
                return await self.try_hooks(detail, hook)

        return Action("hooks.try", {"receipt": call, **({"hook": hook} if hook else {})}, make)

    async def _compare(self, body: JsonObject, person: Person) -> Action:
        text, revision = body.get("q"), body.get("revision")
        if not isinstance(text, str):
            raise ApiError(400, "q: must be a query, as a text")
        if revision is not None and type(revision) is not int:
            raise ApiError(
                400, "revision: must be the number of a revision, or null for the settings in force"
            )
        start = await self.comparisons.plan(text, revision, person.name)
        return Action("hooks.compare", {"q": text, "revision": revision}, start)

    async def _stop_comparing(self, _: JsonObject, __: Person) -> Action:
        return Action("hooks.compare", {"stop": True}, self.comparisons.stop)

    async def _revoke_key(self, body: JsonObject, _: Person) -> Action:
        key_id, keys = _text(body, "id"), self.keys
        if keys is None:
            raise ApiError(400, _NO_KEYS)
        stored = await asyncio.to_thread(keys.find, key_id)
        if stored is None:
            raise ApiError(404, f"No key with the ID {key_id!r} was issued.")
        if stored.revoked is not None:
            raise ApiError(409, f"The key {key_id} of {stored.owner} was revoked before.")

        async def make() -> JsonObject:
            await asyncio.to_thread(keys.revoke, key_id, int(time.time()))
            return {"messages": [f"The key {key_id} of {stored.owner} is refused within 3 seconds."]}

        about = {"key": key_id, "owner": stored.owner, "team": stored.team or None}
        return Action("keys.revoke", about, make)

    async def _stop_session(self, body: JsonObject, _: Person) -> Action:
        session, key = _text(body, "session"), _text(body, "key")
        reason = _text(body, "reason", default=_STOPPED)
        if len(reason) > _LONGEST_REASON:
            raise ApiError(400, f"reason: must be at most {_LONGEST_REASON} characters")

        def stop(state: SessionState) -> None:
            state.refused = reason

        async def make() -> JsonObject:
            await self.sessions.change(SessionContext(session, key=key), stop)
            return {"messages": ["Its calls get the reason in place of an answer, until it starts again."]}

        return Action("sessions.stop", {"session": session, "key": key, "reason": reason}, make)

    async def _allow_finding(self, body: JsonObject, person: Person) -> Action:
        # Imported only for a finding: the policy needs libraries that a gateway without it does not load.
        from hookgate.hooks.policies.redact.options import HASH  # noqa: PLC0415  # see above

        finding, hook = _text(body, "hash"), _text(body, "hook")
        if not HASH.fullmatch(finding):
            raise ApiError(400, "hash: is not the hash of a finding, which the receipt of the call contains")
        return await self._push(
            lambda text: with_allowed(text, {hook}, finding),
            f"Run hookgate redact allow {finding} --name {hook}",
            f"{hook} lets {finding} stay",
            person,
        )

    async def _set_hook(self, body: JsonObject, person: Person) -> Action:
        hook, state = _text(body, "hook"), _text(body, "state")
        if state not in ("enforce", "observe", "off"):
            raise ApiError(400, "state: must be enforce, observe or off")

        def change(text: str) -> str:
            if not has_hook(text, hook):
                return text
            text = with_disabled(text, {hook}, disabled=state == "off")
            return text if state == "off" else with_mode(text, hook, state)

        settings = f"add {hook!r} to hooksConfig.disabled" if state == "off" else f'set "mode": "{state}"'
        remedy = f"Instead, {settings} in the file of {hook!r}, which the page Hooks names"
        return await self._push(change, remedy, f"{hook}: {state}", person)

    async def _push(self, change: TextChange, remedy: str, message: str, person: Person) -> Action:
        """Plan a push of the newest revision with a change. `remedy` is for a policy that is in files."""
        pushed = self.pushed
        if pushed is None:
            raise ApiError(400, _NOT_PUSHED.format(remedy=remedy))
        newest = await asyncio.to_thread(pushed.read_newest)
        try:
            document = change(newest.document)
            await asyncio.to_thread(self.check_policy, document)
        except SettingsError as error:
            raise ApiError(400, f"The pushed policy cannot be changed so: {error}") from None
        if document == newest.document:
            raise ApiError(409, f"Revision {newest.number} has no such hook, or says so already.")
        revision = PolicyRevision.after(newest, document, person.name, message)

        async def make() -> JsonObject:
            try:
                await asyncio.to_thread(pushed.add, revision)
            except StaleRevisionError as error:
                raise ApiError(409, f"Somebody else has pushed a policy meanwhile: {error}") from None
            return {"messages": [f"Revision {revision.number} was pushed; gateways use it within 5 seconds."]}

        return Action("policy.push", revision.facts(), make)


def _text(body: JsonObject, name: str, default: str | None = None) -> str:
    """Return a text in the body. Raises ApiError (400) if it is missing, or contains control characters."""
    value = body.get(name, default)
    if not isinstance(value, str) or not value or not value.isprintable():
        raise ApiError(400, f"{name}: must be a text, on one line")
    return value
