"""Places for connections, and which one is closed when a new one needs a place."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from ipaddress import IPv6Address, ip_address

from hookgate.proxy.shares import Shares

_LOOKS = 8  # how many connections are asked before none counts as closable


class Stage(Enum):
    """What a connection is about."""

    IDLE = 0
    """Between two requests, or nothing was sent yet, or its handshake is not done."""
    HEAD = 1
    """The head of a request is unfinished."""
    BODY = 2
    """The body of a request is unfinished."""
    CALL = 3
    """A request is in flight that came whole."""


_INCOMPLETE = (Stage.IDLE, Stage.HEAD, Stage.BODY)
"""Stages without a whole request. They share one order: if silent connections went before those that have
sent the first byte of something, a client that begins many requests would have every newcomer closed."""


@dataclass(eq=False, slots=True)
class Guest:
    """One connection that was accepted."""

    address: str
    close: Callable[[], bool]
    """Ends it at once, and gives True; False when it must not be closed just now."""
    stage: Stage = field(default=Stage.IDLE)


class Places:
    """The connections of one listener, `most` of them, and `most_per_address` of one address.

    Connections without a whole request are closed for new ones: of the address with most of them the one that
    has been at its stage for longest. Where it `closes_calls`, these are next.
    """

    def __init__(self, most: int, most_per_address: int | None, *, closes_calls: bool) -> None:
        self._most, self._most_per_address = most, most_per_address
        self._guests: Shares[Guest, None] = Shares(most + 1)
        self._stages: dict[Stage, Shares[Guest, None]] = dict.fromkeys(_INCOMPLETE, Shares(most + 1))
        if closes_calls:
            self._stages[Stage.CALL] = Shares(most + 1)
        self._closing: set[Guest] = set()

    def lacks(self, address: str) -> bool:
        """Whether there is no place for one more of an address."""
        return len(self._guests) >= self._most or self.crowded(address)

    def crowded(self, address: str) -> bool:
        """Whether the address has as many as it may."""
        most = self._most_per_address
        return most is not None and self._guests.held_by(address) >= most

    def enter(self, guest: Guest) -> None:
        """A connection takes a place."""
        self._guests.keep(guest.address, guest, None)
        self.move(guest, Stage.IDLE)

    def move(self, guest: Guest, stage: Stage) -> None:
        """A connection has come to another stage."""
        if guest in self._closing:
            return
        self._withdraw(guest)
        guest.stage = stage
        if stage in self._stages:
            self._stages[stage].keep(guest.address, guest, None)

    def leave(self, guest: Guest) -> None:
        """A connection has ended."""
        self._withdraw(guest)
        self._guests.drop(guest.address, guest)
        self._closing.discard(guest)

    def close_one(self, address: str) -> bool:
        """Close a connection for one of an address, if there is one to close; whether a place comes free."""
        if self._closing:
            return True  # one is on its way out already
        owner = address if self.crowded(address) else None
        stages = dict.fromkeys(self._stages.values())  # each once
        return any(self._close_one_of(stage, owner) for stage in stages)

    def _close_one_of(self, stage: Shares[Guest, None], owner: str | None) -> bool:
        for _ in range(min(_LOOKS, len(stage))):
            if (oldest := stage.oldest(owner)) is None:
                return False
            guest = oldest[1]
            if guest.close():
                stage.drop(guest.address, guest)
                self._closing.add(guest)
                return True
            stage.get(guest.address, guest)  # which makes it the last to be asked again
        return False

    def _withdraw(self, guest: Guest) -> None:
        if guest.stage in self._stages:
            self._stages[guest.stage].drop(guest.address, guest)


def address_of(host: str) -> str:
    """What counts as one address: in IPv6 a network of 64 bits, which is what one client is given."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return address.packed[:8].hex(":", 2) + "::/64"
