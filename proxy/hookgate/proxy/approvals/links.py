"""The links with which people decide: each is bound to one request, one person, and a time.

A link is signed, so that nobody can make one or change it. It is used once: when the person has decided, or
the request is over.
"""

import base64
import hmac
import json
from dataclasses import dataclass

from hookgate.proxy.approvals.requests import ApprovalRequest
from hookgate.proxy.config import ApprovalSettings, ConfigError
from hookgate.proxy.config.values import read_secret
from hookgate.proxy.webhooks import signing_key

PATH = "/approvals/"
"""Below this path of the admin listener are the pages of links."""

_PURPOSE = b"hookgate approval link\n"
"""What is signed begins with this, so that no other signature with the same secret is one of a link."""

_LONGEST = 2048


class LinkError(ValueError):
    """Raised for a link that is not valid. The message is for the person who has opened it."""


@dataclass(frozen=True, slots=True)
class Link:
    """What a link says: whose it is, and about which request."""

    request: str
    person: str
    expires: int
    """In milliseconds since 1970."""


class Links:
    """Signs and reads links."""

    def __init__(self, secret: str, people: tuple[str, ...], url: str) -> None:
        """`people` are the names of those who get links, `url` is that of the admin listener for browsers.

        Raises ValueError for an invalid secret.
        """
        self._key, self._people, self._url = signing_key(secret), people, url

    def url_for(self, request: ApprovalRequest, person: str) -> str:
        """Return the URL with which a person decides about a request; empty if it is not known."""
        said = json.dumps({"r": request.id, "p": person, "e": request.expires}).encode()
        token = f"{_encoded(said)}.{_encoded(self._signature(said))}"
        return f"{self._url}{PATH}{token}" if self._url else ""

    def read(self, token: str, now: int) -> Link:
        """Return what a link says, given the end of its URL. Raises LinkError."""
        said, _, signature = token.partition(".")
        try:
            if len(token) > _LONGEST:
                raise ValueError
            document, given = _decoded(said), _decoded(signature)
        except ValueError:
            raise LinkError("This link is not complete. Open it as it was sent.") from None
        if not hmac.compare_digest(given, self._signature(document)):
            raise LinkError("This link was not made by this gateway, or it was changed.")
        fields = json.loads(document)
        link = Link(fields["r"], fields["p"], fields["e"])
        if link.person not in self._people:
            raise LinkError(f"{link.person} does not decide with links any more.")
        if link.expires <= now:
            raise LinkError("This link has expired. If the call is made again, you get another one.")
        return link

    def _signature(self, said: bytes) -> bytes:
        return hmac.digest(self._key, _PURPOSE + said, "sha256")


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)


def read_links(settings: ApprovalSettings, url: str) -> Links | None:
    """Return the links of the configuration, or None if nobody gets any. Raises ConfigError."""
    if not (settings.people and settings.are_enabled):
        return None
    people = tuple(each.name for each in settings.people)
    file, secret = settings.secret_file, settings.secret
    name = "secret" if file is None else "secret_file"
    try:
        if file is not None:
            return read_secret(file, lambda text: Links(text, people, url))
        return Links(secret.get_secret_value() if secret else "", people, url)
    except ValueError as error:
        raise ConfigError([f"approvals.{name}: {error}"]) from None
