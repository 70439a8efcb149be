"""Keys that the gateway has issued, as calls use them: who calls, what is allowed, and what was used."""

import asyncio
import hmac
import logging
import re
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cachetools import LRUCache
from pydantic import ValidationError

from hookgate.hooks.policies.limits import Account, Amounts, Full, expected_amounts
from hookgate.hooks.policy_environment import Counters, PriceTable
from hookgate.hooks.session import CallEnd, CallState, ExpectedUse, SessionContext
from hookgate.hooks.timestamps import utc_text
from hookgate.proxy.config import Config, TokenSettings
from hookgate.proxy.errors import ApiError, StoreError
from hookgate.proxy.keys.callers import hash_of_key, short_key_name
from hookgate.proxy.keys.scopes import TOKEN, IssuedKey, KeyScope, KeyState
from hookgate.proxy.keys.secrets import Pepper, check_pepper, id_in_key, load_pepper
from hookgate.proxy.keys.table import DAY_SECONDS, KeyTable, KeyUsage, StoredKey
from hookgate.proxy.routes.table import Route
from hookgate.proxy.store.database import open_keys

if TYPE_CHECKING:  # it needs PyJWT
    from hookgate.proxy.keys.tokens import Tokens

log = logging.getLogger("hookgate.keys")

_BEGINS_KEY = re.compile(r"(?<![A-Za-z0-9_-])hgk_")
_KEY_IN_PATH = re.compile(r"hgk_[a-z2-7]{10}_")

_FRESH_SECONDS = 3.0
"""How long after a lookup began its result may be used; a revocation takes effect within this time."""

_RETRY_SECONDS = 0.25
"""How old a result may be that does not match the key: the key may have been issued or rotated since."""

_WATCH_SECONDS = 1.0
"""How often the key of an open WebSocket is checked."""

_MAX_CACHED = 10_000
_MAX_LOOKUPS = 100
"""The number of concurrent lookups at which keys that have not been seen before are refused.

Anyone can invent keys, and those that are in use must be looked up every few seconds.
"""

_THREADS = 2
_FLUSH_SECONDS = 2.0
_NO_HASH = secrets.token_bytes(32)
"""Stands in for a hash that does not exist, so that an unknown key takes as long to check as a wrong one."""

_UNAVAILABLE = (
    "hookgate cannot check its keys. Ask the operator of this gateway; it accepts keys again as soon as its "
    "database can be read."
)
_UNKNOWN = (
    "hookgate has not issued this key. Check that it is complete, or ask the operator of this gateway for "
    "another one."
)
_SIGN_IN_AGAIN = "The token has expired. Sign in again to get a new one."
_NOT_ACCEPTED = (
    "hookgate does not accept this token: its signature, its audience or a claim is not as configured. Ask "
    "the operator of this gateway."
)
_REVOKED = "The key {name} was revoked. Ask the operator of this gateway for a new one."
_EXPIRED = "The key {name} expired at {at} UTC. Ask the operator of this gateway for a new one."
_REPLACED = "The key {name} was replaced with a new one. Use the new one."
_IN_PATH = "The path contains a key. Send it as x-goog-api-key, as Authorization: Bearer, or as ?key= only."
_NO_CODE_ASSIST = "Keys that hookgate has issued cannot be used for Code Assist, which needs a Google login."
_FULL = "The key {name} has used {used} of {most} {measure} in this {window}{held}; it resets at {ends} UTC."
_HELD = ", of which {held} are held for calls in progress"
_NO_PRICE = "The key {name} has a limit on cost, and the price table has no price for the model {model!r}."


@dataclass(frozen=True, slots=True)
class _Lookup:
    """The result of reading a key from the database."""

    stored: StoredKey | None
    scope: KeyScope | None = None
    failed: bool = False


_FAILED = _Lookup(None, failed=True)


class IssuedKeys:
    """The keys that this gateway has issued, as calls use them."""

    def __init__(
        self,
        table: KeyTable,
        pepper: Pepper,
        counters: Counters,
        prices: PriceTable | None = None,
        tokens: "Tokens | None" = None,
    ) -> None:
        """`counters` count what keys with limits use; `prices` are needed for limits on cost.

        `tokens` identifies the callers of tokens, which are treated like issued keys.
        """
        self._tokens = tokens
        self._table, self._pepper, self._counters, self._prices = table, pepper, counters, prices
        self._threads = ThreadPoolExecutor(_THREADS, "hookgate-keys")
        self._threads_for_new = ThreadPoolExecutor(1, "hookgate-new-keys")
        self._cached: LRUCache[str, tuple[float, _Lookup]] = LRUCache(_MAX_CACHED)
        self._lookups: dict[str, asyncio.Task[_Lookup]] = {}
        self._used: dict[tuple[str, int], KeyUsage] = {}

    # ---- who calls

    def check_path(self, target: str) -> None:
        """Raise ApiError (400) if the path of a request target contains a key: paths are recorded."""
        if _KEY_IN_PATH.search(target.partition("?")[0]):
            raise ApiError(400, _IN_PATH, "KEY_IN_PATH")

    async def identify(self, credential: str) -> IssuedKey | None:
        """Return the issued key that a request has as its credential. Returns None for any other credential.

        A text that looks like an issued key but is not one counts as an unknown key.
        """
        if not _BEGINS_KEY.search(credential):
            return None if self._tokens is None else await self._tokens.identify(credential)
        sent = credential.rpartition(" ")[2]  # after the scheme, if there is one
        key_id = id_in_key(sent)
        if key_id is None:
            return _unknown(credential, "unknown")
        digest = self._pepper.hash(sent)
        for age in (_FRESH_SECONDS, _RETRY_SECONDS):
            found = await self._find(key_id, age)
            state = _state(found.stored, digest, time.time())
            if found.failed or state != "unknown":
                break
        if found.stored is None or state == "unknown":
            return _unknown(credential, "unavailable" if found.failed else "unknown")
        stored = found.stored
        return IssuedKey(stored.id, stored.owner, stored.team, state, digest, found.scope, stored.expires)

    async def check_again(self, key: IssuedKey) -> None:
        """Check a key that was admitted, after a wait whose length the client chooses: that for its body.

        Raises ApiError (403) if it is no longer valid, or if that is unknown.
        """
        if key.is_token:
            state: KeyState = "valid" if (key.expires or 0) > time.time() else "expired"
        else:
            found = await self._find(key.id, _FRESH_SECONDS)
            state = "unavailable" if found.failed else _state(found.stored, key.digest, time.time())
        if state != "valid":
            raise _refusal(replace(key, state=state))

    async def withdrawn(self, key: IssuedKey) -> None:
        """Return when a key that was valid has been revoked or replaced, or has expired.

        As long as the database cannot be read, it has not.
        """
        if key.is_token:
            await asyncio.sleep(max(0.0, (key.expires or 0) - time.time()))
            return
        while True:
            found = await self._find(key.id)
            if not found.failed and _state(found.stored, key.digest, time.time()) != "valid":
                return
            await asyncio.sleep(_WATCH_SECONDS)

    async def _find(self, key_id: str, max_age: float = _FRESH_SECONDS) -> _Lookup:
        """Return a key as it was in the database at most `max_age` seconds ago."""
        now = time.monotonic()
        began, cached = self._cached.get(key_id, (0.0, _FAILED))
        if not cached.failed and now < began + max_age:
            return cached
        lookup = self._lookups.get(key_id)
        if lookup is None:
            if cached.stored is None and len(self._lookups) >= _MAX_LOOKUPS:
                return _FAILED
            lookup = self._lookups[key_id] = asyncio.create_task(self._look_up(key_id, now))
            lookup.add_done_callback(lambda _: self._lookups.pop(key_id, None))
        try:
            return await asyncio.wait_for(asyncio.shield(lookup), _FRESH_SECONDS)
        except TimeoutError:
            log.error("the keys cannot be read: the database has not answered for %g seconds", _FRESH_SECONDS)
            return _FAILED

    async def _look_up(self, key_id: str, began: float) -> _Lookup:
        """Read a key, and cache it. Its age counts from the beginning of the lookup: it may be as old."""
        try:
            loop = asyncio.get_running_loop()
            was_seen = self._cached.get(key_id, (0.0, _FAILED))[1].stored is not None
            threads = self._threads if was_seen else self._threads_for_new
            stored = await loop.run_in_executor(threads, self._table.find, key_id)
            scope = KeyScope.model_validate_json(stored.scope) if stored else None
        except StoreError as error:
            log.error("%s", error)
            return _FAILED
        except ValidationError:
            log.error("the scope of the key %s cannot be read; a newer version may have written it", key_id)
            return _FAILED
        if time.monotonic() >= began + _FRESH_SECONDS:
            return _FAILED
        found = _Lookup(stored, scope)
        self._cached[key_id] = began, found
        return found

    # ---- whether it may

    async def admit(
        self, key: IssuedKey, route: Route, refusal: ApiError | None, rerouted: Mapping[str, str]
    ) -> "Admission | None":
        """Admit a call with a key, and count it. Returns None for a call that no scope concerns.

        `refusal` is the error if the gateway has no credential of its own for the route. Raises it for a
        valid key, and ApiError (403) if the key does not allow the call. `rerouted` contains the models that
        answer calls to others, by the names of these.
        """
        if key.state != "valid" or key.scope is None:
            raise _refusal(key)
        if route.kind in ("event", "receipt"):
            return None
        if route.api == "code_assist":
            raise ApiError(403, _NO_CODE_ASSIST, "KEY_NOT_ALLOWED")
        if refusal is not None:
            raise refusal
        if problem := key.scope.refusal(route):
            raise ApiError(403, f"The key {key.name} {problem}.", "KEY_NOT_ALLOWED")
        admission = Admission(self, key, key.scope, route, rerouted)
        await admission.begin()
        return admission

    def account(self, subject: SessionContext) -> Account:
        """Return an account of what a call uses."""
        return Account(self._counters, subject, lambda: datetime.now(UTC))

    def expected_amounts(self, expected: ExpectedUse, model: str, rerouted: Mapping[str, str]) -> Amounts:
        """Return the tokens and the cost that a call is expected to use."""
        return expected_amounts(expected, self._prices, model, rerouted)

    def knows_price(self, model: str) -> bool:
        """Return whether the price table has a price for a model."""
        return self._prices is not None and self._prices.knows(model)

    def describe_limit(self, key: IssuedKey, full: Full) -> str:
        """Return the message for a call with a key of which a limit is reached."""
        measure: str = full.count.measure
        places = 2 if measure == "cost" else 0
        if measure == "cost" and self._prices is not None:
            measure = self._prices.currency
        return _FULL.format(
            name=key.name,
            used=f"{full.used:,.{places}f}",
            most=f"{full.count.most:,.{places}f}",
            measure=measure,
            window=full.count.rule.window,
            held=_HELD.format(held=f"{full.held:,.{places}f}") if full.held > 0 else "",
            ends=f"{full.count.ends:%Y-%m-%d %H:%M}",
        )

    # ---- what it used

    def note_use(self, key_id: str, end: CallEnd) -> None:
        """Note what an admitted call has used."""
        if key_id == TOKEN:
            return
        now = int(time.time())
        used = KeyUsage(1, end.input_tokens, end.output_tokens, end.cost or 0.0, now)
        place = key_id, now // DAY_SECONDS
        self._used[place] = self._used.get(place, KeyUsage()) + used

    async def flush(self) -> None:
        """Write the usage that was noted. If that fails, it is kept in memory."""
        if not self._used:
            return
        used, self._used = self._used, {}
        try:
            await asyncio.get_running_loop().run_in_executor(self._threads, self._table.add_usage, used)
        except StoreError as error:
            log.warning("the usage of keys is kept in memory until it can be written: %s", error)
            for place, usage in used.items():
                self._used[place] = self._used.get(place, KeyUsage()) + usage

    async def close(self) -> None:
        """Write the remaining usage, and wait for lookups."""
        await self.flush()
        for threads in (self._threads, self._threads_for_new):
            await asyncio.to_thread(threads.shutdown)


class Admission:
    """A call that was admitted with an issued key, until it ends.

    The path of most calls names their model. If only the body does, `name_model` must be called before the
    call goes upstream.
    """

    def __init__(
        self,
        keys: IssuedKeys,
        key: IssuedKey,
        scope: KeyScope,
        route: Route,
        rerouted: Mapping[str, str],
    ) -> None:
        self._keys, self._key, self._scope, self._route = keys, key, scope, route
        self._rerouted = rerouted
        # The name differs from those of owners, whose calls the policy `limits` counts.
        subject = SessionContext("", key=f"issued:{key.id}", call_state=CallState(rerouted=rerouted))
        self._account = keys.account(subject) if scope.limits else None
        self.at_use = subject.call_state.at_use
        """Callbacks for what the call uses, which may be called several times."""
        self.limits = subject.call_state.limits
        """How much is used of the key's limits."""
        self._model: str | None = None
        self._expected = ExpectedUse()

    async def begin(self) -> None:
        """Count the call, and check the model if the path names it. Raises ApiError (403)."""
        if self._route.is_openai:
            await self._count("")
        else:
            await self.name_model(self._route.model)

    async def name_model(self, model: str) -> None:
        """Check the model that the body names, or that a hook has chosen in place of that.

        Raises ApiError (403) if the key may not be used for it.
        """
        if model == self._model:
            return
        if problem := self._scope.model_refusal(self._route, model):
            raise ApiError(403, f"The key {self._key.name} {problem}.", "KEY_NOT_ALLOWED")
        if self._route.group in ("generate", "embed"):
            self._check_price(model)
        await self._count(model)
        self._model = model

    async def hold(self, expected: ExpectedUse) -> None:
        """Hold what the call is expected to use before it goes upstream, until it has ended.

        Raises ApiError (403) if a limit of the key is reached.
        """
        self._expected = expected
        if self._model is not None and self._scope.limits_usage:
            await self._count(self._model)

    async def check_limits(self, model: str, expected: ExpectedUse) -> None:
        """Check the limits of the key again, in a session of many turns. Raises ApiError (403)."""
        self._expected = expected
        self._check_price(model)
        await self._count(model)

    def _check_price(self, model: str) -> None:
        """Raise ApiError (403) if cost is limited and the model has no price."""
        if any(rule.cost for rule in self._scope.limits) and not self._keys.knows_price(model):
            message = _NO_PRICE.format(name=self._key.name, model=model)
            raise ApiError(403, message, "KEY_LIMIT_REACHED")

    async def _count(self, model: str) -> None:
        """Count the call for the limits of the key. Raises ApiError (403) if one is reached."""
        if self._account is None:
            return
        try:
            amounts = self._keys.expected_amounts(self._expected, model, self._rerouted)
            full = await self._account.take(self, self._scope.limits, model, amounts)
        except StoreError as error:
            log.error("%s", error)
            raise ApiError(403, _UNAVAILABLE, "KEYS_UNAVAILABLE") from None
        if full is not None:
            raise ApiError(403, self._keys.describe_limit(self._key, full), "KEY_LIMIT_REACHED")

    async def check_again(self) -> None:
        """Check the key before the call goes upstream. Raises ApiError (403) if it is no longer valid."""
        if self._model is None:
            raise RuntimeError("the model of a call with an issued key must be named before it is sent")
        await self._keys.check_again(self._key)

    def end(self, end: CallEnd) -> None:
        """Note all that the call has used, for the list of keys."""
        self._keys.note_use(self._key.id, end)


def _unknown(credential: str, state: KeyState) -> IssuedKey:
    """Return the name for the records of a key that cannot be identified."""
    return IssuedKey("", short_key_name(hash_of_key(credential)), "", state)


def _state(stored: StoredKey | None, digest: bytes, now: float) -> KeyState:
    """Return the state of a key with this hash. An unknown ID takes as long as a wrong secret."""
    is_current = hmac.compare_digest(digest, stored.hash if stored else _NO_HASH)
    is_previous = hmac.compare_digest(digest, (stored and stored.previous_hash) or _NO_HASH)
    if stored is None or not (is_current or is_previous):
        return "unknown"
    if stored.revoked is not None:
        return "revoked"
    if stored.expires is not None and stored.expires <= now:
        return "expired"
    return "valid" if is_current or (stored.previous_until or 0) > now else "replaced"


def _refusal(key: IssuedKey) -> ApiError:
    """Return the error for a call with a key, or a token, that is not valid."""
    at = utc_text(key.expires or 0, "minutes").removesuffix("Z").replace("T", " ")
    message, reason = {
        "unavailable": (_UNAVAILABLE, "KEYS_UNAVAILABLE"),
        "revoked": (_REVOKED, "KEY_REVOKED"),
        "expired": (_SIGN_IN_AGAIN if key.is_token else _EXPIRED, "KEY_EXPIRED"),
        "replaced": (_REPLACED, "KEY_EXPIRED"),
    }.get(key.state, (_NOT_ACCEPTED if key.is_token else _UNKNOWN, "KEY_UNKNOWN"))
    return ApiError(403, message.format(name=key.name, at=at), reason)


@asynccontextmanager
async def open_issued_keys(
    config: Config, url: str | None, state: Path, counters: Counters, prices: PriceTable | None
) -> AsyncIterator[IssuedKeys]:
    """Open the keys while the block runs, and write their usage every few seconds. Raises StoreError."""
    tokens = _open_tokens(config.tokens) if config.tokens.issuer else None
    table = KeyTable(await asyncio.to_thread(open_keys, url, state))
    try:
        pepper = await asyncio.to_thread(load_pepper, config.clients.pepper_file, state)
        await asyncio.to_thread(check_pepper, pepper, table)
        keys = IssuedKeys(table, pepper, counters, prices, tokens)
        ending = asyncio.Event()
        flushing = asyncio.create_task(_flush_regularly(keys, ending))
        try:
            yield keys
        finally:
            ending.set()  # if the task were cancelled, it could lose what it writes
            await flushing
            await keys.close()
    finally:
        await asyncio.to_thread(table.close)


def _open_tokens(settings: TokenSettings) -> "Tokens":
    from hookgate.proxy.keys.tokens import Tokens  # noqa: PLC0415  # an extra has PyJWT

    return Tokens(settings)


async def _flush_regularly(keys: IssuedKeys, ending: asyncio.Event) -> None:
    while not ending.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(ending.wait(), _FLUSH_SECONDS)
        await keys.flush()
