"""A call between its two halves: what is kept of it while the upstream thinks. Pure."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from hookgate.hooks.document import Encoded
from hookgate.proxy.call import Call
from hookgate.proxy.routes import Route
from hookgate.translator.fields import JsonObject, read_list, write
from hookgate.translator.strictjson import dumps, loads


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A call as it goes upstream. The parsed body is gone: what waits for the upstream is small."""

    call: Call
    route: Route
    model: str
    payload: bytes
    llm_request: Encoded | None
    """What AfterModel hooks are shown of the request; None when there are no such hooks."""
    allowed: frozenset[str] | None
    """The tools that the answer may call; None when no hook has selected any."""
    believed: Collection[str]
    """What a shim tells of, so that the answer need not give it away."""
    prompt: str
    """The user's turn that is to be answered; empty when nobody wants to know."""

    def with_turns(self, turns: list[JsonObject]) -> "Outgoing":
        """The same call with further turns at the end of its conversation."""
        outer = loads(self.payload)
        model, body = self.call.envelope.open_request(self.route, outer)
        body = write(body, "contents", [*read_list(body, "contents"), *turns])
        return replace(self, payload=dumps(self.call.envelope.close_request(outer, model, body)))
