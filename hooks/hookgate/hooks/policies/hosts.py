"""The hosts of URLs: in the settings of tools that the API runs, and in texts. It does no I/O.

Programs read unusual URLs differently. So the host of a URL is known only if it has the plain form; any
other URL has the host `""`, which no list of hosts contains.
"""

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

from hookgate.hooks.policies.options import Globs, matches_name
from hookgate.translator.fields import read, strings_in
from hookgate.translator.text_files import show_text_file

_PLAIN = re.compile(
    r"(?:(?:https?|wss?)://)?([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)(?::[0-9]{1,5})?(?:[/?#][!-\[\]-~]*)?",
    re.IGNORECASE | re.ASCII,
)
"""An ASCII URL without a user name or backslash, or the same without its scheme."""

_IN_TEXT = re.compile(r"https?:[/\\]{2}[^\s\"'<>`]*", re.IGNORECASE)
_AROUND = ".,;:!?)]}*_|"
"""Characters after a URL in a text that seldom belong to it."""

_URL_FIELDS = ("endpoint", "host", "uri", "uris", "url", "urls")


def host_of(url: str) -> str:
    """Return the host of a URL in small letters, or an empty string if it is not certain."""
    plain = _PLAIN.fullmatch(url)
    return plain[1].lower() if plain else ""


def hosts_in_settings(value: Any) -> Iterator[str]:
    """Yield the hosts of all URLs in the settings of a tool, `""` for one whose host is not certain.

    A string is a URL if its field is named as one, or if it contains `://`.
    """
    for text, is_url in _strings(value, is_url=False):
        if is_url or "://" in text:
            yield host_of(text)


def hosts_in_fields(value: Any) -> Iterator[str]:
    """Yield the hosts of the URLs in the fields that are named as such, but not of those in other texts."""
    for text, is_url in _strings(value, is_url=False):
        if is_url:
            yield host_of(text)


def _strings(value: Any, *, is_url: bool) -> Iterator[tuple[str, bool]]:
    """Yield the strings in a value, and whether the field of each is named as that of a URL."""
    if isinstance(value, str):
        yield value, is_url
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _strings(item, is_url=is_url or key.lower().endswith(_URL_FIELDS))
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item, is_url=is_url)


def hosts_in_texts(value: Any) -> Iterator[str]:
    """Yield the hosts of the URLs in all texts of a value, `""` for one whose host is not certain.

    Files of text in it are texts, too.
    """
    for text in chain(strings_in(value), _text_files(value)):
        for found in _IN_TEXT.finditer(text):
            yield host_of(found[0].rstrip(_AROUND))


def _text_files(value: Any) -> Iterator[str]:
    """Yield the text of all files in a value that are text."""
    if isinstance(value, dict):
        data, media_type = value.get("data"), read(value, "mimeType")
        if isinstance(data, str) and isinstance(media_type, str):
            yield show_text_file(data, media_type) or ""
        for item in value.values():
            yield from _text_files(item)
    elif isinstance(value, list):
        for item in value:
            yield from _text_files(item)


def is_allowed(host: str, allowed: Globs) -> bool:
    """Return whether a host is certain, and one of the globs matches it."""
    return bool(host) and matches_name(tuple(glob.lower() for glob in allowed), host)
