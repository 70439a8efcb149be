"""What all calls of one gateway share."""

import logging
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from hookgate.hooks import CallEnd
from hookgate.proxy.accepted import AcceptedKeys
from hookgate.proxy.bypass import Bypasses
from hookgate.proxy.caller import Callers
from hookgate.proxy.config import Config
from hookgate.proxy.errors import ApiError
from hookgate.proxy.keys import named_keys
from hookgate.proxy.logs import note_cause
from hookgate.proxy.prices import Prices, read_prices
from hookgate.proxy.records import CallRecord, Receipts
from hookgate.proxy.sessions import Sessions
from hookgate.proxy.sources import sources_of
from hookgate.proxy.transcripts import Transcripts
from hookgate.proxy.upstream import NoAnswerError, Upstreams

if TYPE_CHECKING:  # its libraries are for a gateway that has one
    from hookgate.proxy.audit import Audit


log = logging.getLogger("hookgate.gateway")


@dataclass(frozen=True)
class House:
    """The upstreams, the settings, and what is remembered of sessions."""

    upstreams: Upstreams
    config: Config
    accepted: AcceptedKeys = field(default_factory=AcceptedKeys)
    bypasses: Bypasses = field(default_factory=Bypasses)
    receipts: Receipts = field(default_factory=Receipts)
    audit: "Audit | None" = None
    """Where calls are put on record; None where they are not."""

    @cached_property
    def sessions(self) -> Sessions:
        """What is remembered of sessions."""
        return Sessions(self.accepted)

    @cached_property
    def callers(self) -> Callers:
        """Who calls, by the names that keys have. Raises KeysError when these cannot be had."""
        refuses = self.config.clients.unknown_keys == "refuse"
        return Callers(named_keys(self.config.keys), refuses_unknown=refuses)

    def settle(self, record: CallRecord) -> None:
        """A call has ended: tell those who count, and keep its receipt."""
        used = record.usage
        if self.prices:
            record.cost = self.prices.cost(
                record.model, used.input_tokens, used.output_tokens, used.cached_tokens
            )
        end = CallEnd(record.model, used.input_tokens, used.output_tokens, record.cost)
        for call in record.calls:
            for told in call.at_end:
                told(end)
        self.accepted.note(record)
        key = record.session.key if record.session else ""
        self.receipts.add(record, self.accepted.owners(key)[0])
        if self.audit is not None:
            self.audit.settle(record)

    def note_error(self, record: CallRecord, error: ApiError) -> None:
        """The client is told of an error: put on record and in the log what went wrong."""
        record.note_error(error)
        note_cause(error.cause)
        if isinstance(error, NoAnswerError):
            log.warning("no answer from %s: %s", error.origin, error.why)

    async def begin(self, record: CallRecord) -> None:
        """A call is about to go upstream: its start has to be on record. Raises ApiError."""
        if self.audit is not None:
            await self.audit.begin(record)

    async def tell_event(self, record: CallRecord) -> None:
        """A shim's event is about to be answered: it has to be on record. Raises ApiError."""
        if self.audit is not None:
            await self.audit.tell_event(record, 200)

    @cached_property
    def prices(self) -> Prices | None:
        """What models cost, where that is told. Raises ConfigError for a price table with mistakes."""
        return read_prices(self.config.prices.file)

    @cached_property
    def transcripts(self) -> Transcripts:
        """What was said in each session, where that is kept."""
        return Transcripts(self.config.transcripts, sources_of(self.config.hooks).state)
