"""The names by which the admin listener may be asked for what it tells without a token.

A page elsewhere can have its own name stand for this machine's address, and then read what is there as if it
were its own (DNS rebinding). A browser tells the name in Host, and tells plain HTTP nothing else: so the name
decides. Programs that ask by address, by a name without a dot, or by a name that nobody can register, such as
probes and services of one cluster, need no setting.
"""

import socket
from collections.abc import Iterable
from ipaddress import ip_address
from urllib.parse import urlsplit

_PRIVATE = (".localhost", ".svc", ".cluster.local", ".internal")
"""Domains that are not for sale: of this machine, of Kubernetes, and of private networks."""


class KnownHosts:
    """The names of one listener: `names`, this machine's, and those that no page elsewhere can have."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {_plain(name) for name in (*names, socket.gethostname())}

    def knows(self, header: str) -> bool:
        """Whether a request with this Host may be answered. One without is no browser's."""
        try:
            host = _plain(urlsplit(f"//{header}").hostname or "")
        except ValueError:
            return False
        if not header or host in self._names or host.endswith(_PRIVATE):
            return True
        return bool(host) and ("." not in host or _is_address(host))


def _plain(name: str) -> str:
    return name.lower().rstrip(".")


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
