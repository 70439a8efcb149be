"""The keys that the upstream has accepted: each has a share of its own in what the gateway remembers."""

from collections import OrderedDict

from hookgate.proxy.records import CallRecord

KEPT = 10_000
"""Keys that are known as accepted; the one that was not used for longest is forgotten."""

_UNPROVEN = ""
"""The owner that callers without an accepted key share, and those without any key."""


class AcceptedKeys:
    """Tells keys that work from those that anybody can make up.

    The gateway takes any key, and cannot check it. If each had a share of its own, a client could make up as
    many keys as it takes to crowd out all others. So a key stands for itself once the model has answered a
    call with it; until then it shares one place with all other unproven keys.
    """

    def __init__(self) -> None:
        self._accepted: OrderedDict[str, None] = OrderedDict()

    def note(self, record: CallRecord) -> None:
        """A call has ended: its key is accepted when the model answered it."""
        if record.kind != "judged" or record.session is None or not record.session.key:
            return
        if any(200 <= request.status < 300 for request in record.requests):
            self._accepted[record.session.key] = None
            self._accepted.move_to_end(record.session.key)
            if len(self._accepted) > KEPT:
                self._accepted.popitem(last=False)

    def owners(self, key: str) -> tuple[str, ...]:
        """Whose share what belongs to a key goes to, and then where else it may still be."""
        return (key, _UNPROVEN) if key in self._accepted else (_UNPROVEN, key)
