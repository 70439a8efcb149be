"""What an http hook may be set to: the services it may ask, and the headers it sends them.

A service sees every prompt, so a settings file that came with a project must not choose just any host: a
hook asks this machine, or what the operator's targets allow.
"""

import os
import re
from collections.abc import Iterable
from ipaddress import ip_address, ip_network
from urllib.parse import unquote

from yarl import URL

from hookgate.hooks.errors import SettingsError
from hookgate.hooks.settings import Hook, HttpConfig

_LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1"))
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2
_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})")


def service(hook: Hook, config: HttpConfig, targets: Iterable[str]) -> tuple[str, URL]:
    """The unix socket, or empty, and the url to post to. Raises SettingsError."""
    allowed = [_target(number, target) for number, target in enumerate(targets, 1)]
    if config.url.startswith("unix:"):
        socket, _, path = config.url.removeprefix("unix:").partition(":")
        return socket, URL(f"http://localhost{path}")
    try:
        url = URL(config.url)
    except ValueError:
        raise _error(hook, "its url cannot be read; write it like http://127.0.0.1:8080/path") from None
    if "@" in url.raw_authority:
        remedy = 'name them in `headers`, such as {"Authorization": "Bearer $TOKEN"}'
        raise _error(hook, f"{shown_url(config.url)}: a url must not hold credentials; {remedy}")
    if not (_is_loopback(url.host or "") or any(_is_under(url, target) for target in allowed)):
        remedy = (
            f"add {url.origin()}/ to hooksConfig.http_targets in the user or system settings, "
            "or in a policy file (--policy)"
        )
        raise _error(hook, f"{shown_url(config.url)} is neither on this machine nor allowed; {remedy}")
    return "", url


def _is_loopback(host: str) -> bool:
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost"
    return any(address in network for network in _LOOPBACK)


def _target(number: int, prefix: str) -> URL:
    try:
        url = URL(prefix)
        if url.scheme in ("http", "https") and url.host and shown_url(prefix) == prefix:
            return url
    except ValueError:
        pass
    raise SettingsError(
        f"hooksConfig.http_targets: entry {number} has to be like https://policy.example.com/hooks/, "
        "without user, query or fragment"
    )


def _is_under(url: URL, target: URL) -> bool:
    """Scheme, host and port are equal, and the path begins with all segments of the target's."""
    origins = {(each.scheme, each.raw_host, each.port) for each in (url, target)}
    if len(origins) > 1 or ".." in re.split(r"[/\\]", unquote(url.raw_path)):
        return False
    folder = target.raw_path.removesuffix("/")
    return url.raw_path == folder or url.raw_path.startswith(f"{folder}/")


def header(hook: Hook, name: str, value: str) -> str:
    """A header's value with its variables. Raises SettingsError, which never shows the value."""
    missing = [m[1] or m[2] for m in _VARIABLE.finditer(value) if (m[1] or m[2]) not in os.environ]
    if missing:
        raise _error(hook, f"headers.{name}: the environment has no {missing[0]}; set it")
    value = _VARIABLE.sub(lambda m: os.environ[m[1] or m[2]], value)
    if not _HEADER_NAME.fullmatch(name) or not value.isprintable():
        raise _error(hook, f"headers.{name}: a header takes one line of printable characters; check it")
    return value


def _error(hook: Hook, message: str) -> SettingsError:
    name = shown_url(hook.name) if hook.name == hook.target else hook.name  # a nameless hook goes by its url
    return SettingsError(f"{hook.source}: the http hook {name!r}: {message}")


def shown_url(url: str) -> str:
    """The url without what may be secret: user, password, query and fragment."""
    return re.sub(r"(?<=//)[^/?#]*@|[?#].*", "", url)
