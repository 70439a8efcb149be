"""The words and addresses in texts, and which values a text gives.

Words are compared in one spelling: compatibility forms, case and invisible characters do not count. Nothing
here takes more than a time proportional to the text.
"""

import re
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise

from hookgate.hooks.policies.options import compile_pattern
from hookgate.hooks.policies.spelling import same_spelling

AROUND = "\"'`´‘’“”„«»<>()[]{}.,;:!?*|…#@$%&=~^\\"
"""Characters around a word that do not belong to it."""

_EMAIL = r"[\pL\pN_.+-]+@[\pL\pN_-]+(?:\.[\pL\pN_-]+)+"
_REST = r"[^\s\"'<>`]+"
_URL = rf"(?:[a-z][a-z0-9+.-]{{1,20}}:[/\\]{{2}}|www\.){_REST}|(?:[\pL\pN_-]+\.)+\pL{{2,}}/{_REST}"
_SPACED_ACCOUNT = r"\b[a-z]{2}[0-9]{2}(?: [0-9a-z]{4}){2,7}(?: [0-9a-z]{1,4})?\b"
_AFTER_URL = ".,;:!?)]}*_|'\""

_MAY_BE_ADDRESS = re.compile(r"[@/\\]|[0-9a-z]\.[a-z]|[a-z]{2}[0-9]{2}|(?:[0-9]{1,3}\.){3}[0-9]")
_MAY_BE_PLAIN = r"[a-z0-9-]+(?:\.[a-z0-9-]+)+|[a-z]{2}[0-9]{2}[0-9a-z]{8,}"
_HOST = re.compile(r"(?:[a-z0-9-]+\.)+(?:com|net|org|io|ai|app|dev|co|info|biz|xyz|me|ru|cn|de|fr|uk|eu)")
_IPV4 = re.compile(r"(?!127\.)(?:[0-9]{1,3}\.){3}[0-9]{1,3}")
"""An address in the network, rather than the machine's own."""
_ACCOUNT = re.compile(r"[a-z]{2}[0-9]{2}[0-9a-z]{8,30}")
_LONGEST_PLAIN = 256
"""The longest host or account number. Longer words are neither."""


def words_of(text: str) -> list[str]:
    """Return the words of a text, which are separated by white space."""
    return [word for each in same_spelling(text).split() if (word := each.strip(AROUND))]


def addresses_in(text: str) -> list[str]:
    """Return the e-mail addresses, URLs, hosts and account numbers in a text."""
    return _split(text)[0]


def _split(text: str) -> tuple[list[str], str]:
    """Return the addresses in a text, and what is left of it."""
    rest = same_spelling(text)
    addresses: list[str] = []
    if _MAY_BE_ADDRESS.search(rest) is None:
        return addresses, rest
    if "@" in rest:
        addresses += [found.strip(AROUND) for found in _found(_EMAIL, rest)]
        rest = compile_pattern(_EMAIL).sub(" ", rest)
    if "://" in rest or ":\\" in rest or "/" in rest or "www." in rest:
        addresses += [found.rstrip(_AFTER_URL) for found in _found(_URL, rest)]
        rest = compile_pattern(_URL).sub(" ", rest)
    spaced = _found(_SPACED_ACCOUNT, rest)
    if spaced := [found for found in spaced if _has_digits(found)]:
        addresses += [found.replace(" ", "") for found in spaced]
        rest = compile_pattern(_SPACED_ACCOUNT).sub(" ", rest)
    plain = [found for each in _found(_MAY_BE_PLAIN, rest) if _is_plain_address(found := each.strip(AROUND))]
    return addresses + plain, rest


def _found(pattern: str, text: str) -> list[str]:
    return [match[0] for match in compile_pattern(pattern).finditer(text)]


def _has_digits(text: str) -> bool:
    return sum(map(str.isdigit, text)) > 7


def _is_plain_address(word: str) -> bool:
    """Return whether a word is a host or an account number."""
    if not 4 <= len(word) <= _LONGEST_PLAIN:
        return False
    if _HOST.fullmatch(word) or _IPV4.fullmatch(word):
        return True
    return _ACCOUNT.fullmatch(word) is not None and _has_digits(word)


def is_url(word: str) -> bool:
    """Return whether a word is a URL."""
    return compile_pattern(_URL).fullmatch(word) is not None


_PLAIN_URL = re.compile(r"(?:[a-z][a-z0-9+.-]*://)?([a-z0-9.-]+(?::[0-9]+)?)(/[^?#]*)?([?#].*)?")


_LONGEST_URL = 4096
_MAX_STEPS = 20
"""Steps of a path of which each prefix counts; of a longer path, the whole counts as well."""


def url_prefixes(url: str) -> list[str]:
    """Return the URL without its scheme, query and fragment, and what of it ends before a slash.

    Whoever gives one of these gives the URL. Returns an empty list if programs could read it differently.
    """
    plain = _PLAIN_URL.fullmatch(url) if len(url) <= _LONGEST_URL else None
    if plain is None:
        return []
    steps = (plain[2] or "").rstrip("/").split("/")
    if any(step in (".", "..") or "%" in step or "\\" in step for step in steps):
        return []
    ends = [len(steps), *range(min(len(steps) - 1, _MAX_STEPS), 0, -1)]
    return [plain[1] + "/".join(steps[:end]) for end in ends]


def fact_of(kind: str, text: str) -> int:
    """Return the hash of a fact: its kind, and a text in the spelling in which texts are compared."""
    data = f"{kind}\0{text}".encode(errors="surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest())


# ---- what a text gives: its words, and each pair of words, by which longer values are found again


def given_by(kind: str, text: str) -> set[int]:
    """Return the facts that a text gives its words and addresses."""
    words = words_of(text)
    given = {fact_of(kind, word) for word in dict.fromkeys(words)}
    given |= {fact_of(kind, " ".join(pair)) for pair in dict.fromkeys(pairwise(words))}
    return given | addresses_given_by(kind, text)


def addresses_given_by(kind: str, text: str) -> set[int]:
    """Return the facts that a text gives its addresses. Of a URL, what comes behind it is given as well."""
    return {fact_of(kind, part.texts[0]) for part in addresses_as_parts(text) if part.texts}


def given_as_whole(kind: str, value: str) -> set[int]:
    """Return the facts that a field gives its value: only as a whole, as others may write its words."""
    if len(value) > _LONGEST_VALUE:
        return set()
    words = words_of(value)
    if len(words) == 1 and "/" not in words[0]:
        return {fact_of(kind, words[0])}
    addresses, rest = _split(value)
    if len(addresses) == 1 and not words_of(rest):
        return addresses_given_by(kind, value)
    given = {fact_of(kind, " ".join(words))}
    named = _NAMED_ADDRESS.fullmatch(same_spelling(value).strip())
    return given | addresses_given_by(kind, named[1]) if named and len(addresses) == 1 else given


def fact_of_whole(kind: str, value: str) -> int:
    """Return the fact that a value is given as a whole."""
    return fact_of(kind, " ".join(words_of(value)))


_LONGEST_VALUE = 300
_NAMED_ADDRESS = re.compile(r"[^<>@]*<([^<>\s]+)>")
"""An address with a person's name."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a value, and the texts of which one has to be given."""

    shown: str
    texts: tuple[str, ...]

    def facts(self, kind: str) -> list[int]:
        """Return the facts of which each gives the part."""
        return [fact_of(kind, text) for text in self.texts]


def addresses_as_parts(text: str) -> list[Part]:
    """Return the addresses in a text."""
    return [
        Part(address, tuple(url_prefixes(address)) if is_url(address) else (address,))
        for address in dict.fromkeys(addresses_in(text))
    ]


def value_parts(value: str) -> list[Part]:
    """Return what must be given for a value: its addresses and other words, in the order of the words."""
    addresses = addresses_as_parts(value)
    words = words_of(_split(value)[1] if addresses else value)
    pairs = [] if addresses else [" ".join(pair) for pair in pairwise(words)]
    return addresses + [Part(text, (text,)) for text in dict.fromkeys([*words, *pairs])]
