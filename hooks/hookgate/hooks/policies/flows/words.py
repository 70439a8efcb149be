"""What texts contain that rules about flows compare: words, addresses, words for actions, and pieces.

Words are compared in one spelling: compatibility forms, case and invisible characters do not count. Nothing
here takes more than a time proportional to the text.
"""

import base64
import binascii
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from urllib.parse import unquote
from zlib import crc32

from hookgate.hooks.policies.options import compile_pattern

_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e01ef]"
)
_AROUND = "\"'`´‘’“”„«»<>()[]{}.,;:!?*|…#@$%&=~^\\"
"""Characters around a word that do not belong to it."""

_EMAIL = r"[\pL\pN_.+-]+@[\pL\pN_-]+(?:\.[\pL\pN_-]+)+"
_REST = r"[^\s\"'<>`]+"
_URL = rf"(?:[a-z][a-z0-9+.-]{{1,20}}:[/\\]{{2}}|www\.){_REST}|(?:[\pL\pN_-]+\.)+\pL{{2,}}/{_REST}"
_SPACED_ACCOUNT = r"\b[a-z]{2}[0-9]{2}(?: [0-9a-z]{4}){2,7}(?: [0-9a-z]{1,4})?\b"
_AFTER_URL = ".,;:!?)]}*_|'\""

_MAY_BE_ADDRESS = re.compile(r"[@/\\]|[0-9a-z]\.[a-z]|[a-z]{2}[0-9]{2}")
_BETWEEN = re.compile(r"[\s,;:=()<>\[\]{}\"'`|]+")
_HOST = re.compile(r"(?:[a-z0-9-]+\.)+(?:com|net|org|io|ai|app|dev|co|info|biz|xyz|me|ru|cn|de|fr|uk|eu)")
_ACCOUNT = re.compile(r"[a-z]{2}[0-9]{2}[0-9a-z]{8,30}")
_LONGEST_PLAIN = 256
"""The longest host or account number. Longer words are neither."""


def same_spelling(text: str) -> str:
    """Return the text in the spelling in which texts are compared."""
    if not text.isascii():
        text = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text)).encode(errors="replace").decode()
    return text.casefold()


def words_of(text: str) -> list[str]:
    """Return the words of a text, which are separated by white space."""
    return [word for each in same_spelling(text).split() if (word := each.strip(_AROUND))]


def urls_in(text: str) -> list[str]:
    """Return the URLs in a text, also those without a scheme that have a path or begin with `www.`."""
    return [found.rstrip(_AFTER_URL) for found in _found(_URL, same_spelling(text))]


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
        addresses += [found.strip(_AROUND) for found in _found(_EMAIL, rest)]
        rest = compile_pattern(_EMAIL).sub(" ", rest)
    if "://" in rest or ":\\" in rest or "/" in rest or "www." in rest:
        addresses += [found.rstrip(_AFTER_URL) for found in _found(_URL, rest)]
        rest = compile_pattern(_URL).sub(" ", rest)
    spaced = _found(_SPACED_ACCOUNT, rest)
    if spaced := [found for found in spaced if _has_digits(found)]:
        addresses += [found.replace(" ", "") for found in spaced]
        rest = compile_pattern(_SPACED_ACCOUNT).sub(" ", rest)
    plain = [word for word in map(_trimmed, _BETWEEN.split(rest)) if _is_plain_address(word)]
    return addresses + plain, rest


def _found(pattern: str, text: str) -> list[str]:
    return [match[0] for match in compile_pattern(pattern).finditer(text)]


def _trimmed(word: str) -> str:
    return word.strip(_AROUND)


def _has_digits(text: str) -> bool:
    return sum(map(str.isdigit, text)) > 7


def _is_plain_address(word: str) -> bool:
    """Return whether a word is a host or an account number."""
    if not 4 <= len(word) <= _LONGEST_PLAIN:
        return False
    return _HOST.fullmatch(word) is not None or (_ACCOUNT.fullmatch(word) is not None and _has_digits(word))


def is_url(word: str) -> bool:
    """Return whether a word is a URL."""
    return compile_pattern(_URL).fullmatch(word) is not None


_PLAIN_URL = re.compile(r"(?:[a-z][a-z0-9+.-]*://)?([a-z0-9.-]+(?::[0-9]+)?)(/[^?#]*)?([?#].*)?")


def url_prefixes(url: str) -> list[str]:
    """Return the URL without its scheme, query and fragment, and what of it ends before a slash.

    Whoever gives one of these gives the URL. Returns an empty list if programs could read it differently.
    """
    plain = _PLAIN_URL.fullmatch(url)
    if plain is None:
        return []
    steps = (plain[2] or "").rstrip("/").split("/")
    if any(step in (".", "..") or "%" in step or "\\" in step for step in steps):
        return []
    return [plain[1] + "/".join(steps[:end]) for end in range(len(steps), 0, -1)]


def digest(kind: str, text: str) -> int:
    """Return the hash of a fact: its kind, and a text in the spelling in which texts are compared."""
    data = f"{kind}\0{text}".encode(errors="surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest())


# ---- what a text gives: its words, and each pair of words, by which longer values are found again


def given_by(kind: str, text: str) -> set[int]:
    """Return the facts that a text gives its words and addresses."""
    words = words_of(text)
    given = {digest(kind, word) for word in dict.fromkeys(words)}
    given |= {digest(kind, " ".join(pair)) for pair in dict.fromkeys(pairwise(words))}
    return given | _numbered_in(kind, words) | addresses_given_by(kind, text)


_NO_SPACE = re.compile(r"(?<=[a-z])\.(?=[A-Z][a-z])")


def said_by_user(kind: str, text: str) -> set[int]:
    """Return the facts that the user's text gives: what any text gives, and the actions that it asks for.

    Where a new sentence begins without a space, the word before it is given as well.
    """
    given = given_by(kind, text)
    if _NO_SPACE.search(text):
        given |= given_by(kind, _NO_SPACE.sub(". ", text))
    actions = {group for word in words_of(text) for group in (*_GROUPS.get(word, ()), *_ASKED.get(word, ()))}
    return given | {digest(kind, f"\0{action}") for action in actions}


def asked_for(kind: str, tool: str) -> set[int]:
    """Return the facts of which each means that the user asks for an action of the tool."""
    return {digest(kind, f"\0{action}") for action in _actions_of(tool)}


def addresses_given_by(kind: str, text: str) -> set[int]:
    """Return the facts that a text gives its addresses. Of a URL, what comes behind it is given as well."""
    return {digest(kind, part.texts[0]) for part in addresses_as_parts(text) if part.texts}


def given_as_whole(kind: str, value: str) -> set[int]:
    """Return the facts that a field gives its value: only as a whole, as others may write its words."""
    if len(value) > _LONGEST_VALUE:
        return set()
    addresses, rest = _split(value)
    if len(addresses) == 1 and not words_of(rest):
        return addresses_given_by(kind, value)
    named = _NAMED_ADDRESS.fullmatch(same_spelling(value).strip())
    return {whole(kind, value)} | (
        addresses_given_by(kind, named[1]) if named and len(addresses) == 1 else set()
    )


def whole(kind: str, value: str) -> int:
    """Return the fact that a value is given as a whole."""
    return digest(kind, " ".join(words_of(value)))


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
        return [digest(kind, text) for text in self.texts]


def addresses_as_parts(text: str) -> list[Part]:
    """Return the addresses in a text."""
    return [
        Part(address, tuple(url_prefixes(address)) if is_url(address) else (address,))
        for address in dict.fromkeys(addresses_in(text))
    ]


def parts_of(value: str) -> list[Part]:
    """Return what must be given for a value: its addresses and other words, in the order of the words."""
    addresses = addresses_as_parts(value)
    words = words_of(_split(value)[1] if addresses else value)
    pairs = [] if addresses else [" ".join(pair) for pair in pairwise(words)]
    return addresses + [Part(text, (text,)) for text in dict.fromkeys([*words, *pairs])]


# ---- words for actions

_ACTIONS: Mapping[str, str] = {
    "send": """send sends sending sent email e-mail mail forward message messages reply dm post publish share
        upload submit""",
    "delete": "delete deletes deleting remove removing erase drop destroy trash wipe cancel cancelling purge",
    "pay": "pay paying payment transfer wire transaction refund money buy purchase order send schedule",
    "change": "change changing update updating modify edit set replace reset rename reschedule move adjust",
    "create": """create creating add adding append invite inviting book booking reserve reserving reservation
        make register schedule grant write save""",
    "run": "run running execute install launch start call invoke",
    "visit": "visit open fetch go browse navigate click download",
}
"""Words for actions, by what they have in common."""

_TOOL_WORDS: Mapping[str, Sequence[str]] = {"get": ("visit",), "read": ("visit",), "load": ("visit",)}
"""Words of tools' names for actions that texts are full of, and that mean something else there."""
_ASKED: Mapping[str, Sequence[str]] = dict.fromkeys(
    [
        "article",
        "articles",
        "link",
        "links",
        "page",
        "pages",
        "site",
        "sites",
        "url",
        "urls",
        "webpage",
        "webpages",
        "website",
        "websites",
    ],
    ("visit",),
)
"""What users speak of if they ask for an action."""
_GROUPS: dict[str, list[str]] = {}
for _group, _words in _ACTIONS.items():
    for _word in _words.split():
        _GROUPS.setdefault(_word, []).append(_group)

_NAME_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_NEAR = 40
"""Words between a word for an action and what it is to be done to."""

_IDS = ("id", "ids", "number", "no", "nr", "item", "entry")
_CALLED = 3
"""Words before a short number that may say what it is the number of."""
_SHORT_NUMBER = 4


_ESCAPED = re.compile(r"\\[nrt'\"]")
"""White space and quotes in texts that were encoded twice, such as the representation of an object."""


def _actions_of(tool: str) -> list[str]:
    """Return the groups of actions in a tool's name, such as `send` for `send_email`."""
    names = [part.lower() for part in _NAME_PARTS.findall(tool)]
    return sorted({group for name in names for group in (*_GROUPS.get(name, ()), *_TOOL_WORDS.get(name, ()))})


def orders_in(kind: str, text: str) -> set[int]:
    """Return the facts that words stand near words for an action."""
    words = words_of(_ESCAPED.sub(" ", text))
    if len(words) < 2:
        return set()
    near: dict[str, set[str]] = {}
    done: dict[str, int] = {}
    for at, word in enumerate(words):
        for group in _GROUPS.get(word, ()):
            start = max(at - _NEAR, done.get(group, 0))
            done[group] = at + _NEAR + 1
            near.setdefault(group, set()).update(words[start : done[group]])
    orders = {digest(kind, f"{group}\0{word}") for group, found in near.items() for word in found}
    return orders | _numbered_in(kind, words) if orders else orders


def ordered(kind: str, tool: str, value: str) -> list[list[int]]:
    """Return what has to be known if a text asks for an action of the tool with a value.

    That is a list of facts for each word, of which one has to be known: the word stands near a word for the
    action. Short numbers stand everywhere, so one also has to be called an ID, or what the tool's name says.
    """
    actions = _actions_of(tool)
    near = [[digest(kind, f"{action}\0{word}") for action in actions] for word in words_of(value)]
    return near + numbered(kind, tool, value)


def numbered(kind: str, tool: str, value: str) -> list[list[int]]:
    """Return, for each short number in a value, the facts that it is called an ID, or as the tool is."""
    names = [part.lower() for part in _NAME_PARTS.findall(tool)]
    called = [*_IDS, *(name for name in names if name not in _GROUPS and len(name) > 2)]
    return [
        [digest(kind, f"{name}\0{word}") for name in called] for word in words_of(value) if _is_number(word)
    ]


def _numbered_in(kind: str, words: Sequence[str]) -> set[int]:
    """Return the facts of what stands shortly before short numbers."""
    return {
        digest(kind, f"{before}\0{word}")
        for at, word in enumerate(words)
        if _is_number(word)
        for before in words[max(0, at - _CALLED) : at]
        if not _is_number(before)
    }


def _is_number(word: str) -> bool:
    return len(word) <= _SHORT_NUMBER and word.isdigit()


# ---- pieces: hashes of runs of letters and digits, chosen so that each longer run has some of them

_RUN = 16
_WINDOW = 8
SURE = _RUN + _WINDOW - 1
"""A text that has so many letters and digits in a row in common with another has a piece of it."""

_NOT_WORD = re.compile(r"[\W_]+")
_TELLING = re.compile(r"(?=[^\W_]*[0-9])[^\W_]{5,}")
"""Numbers and codes, which are pieces even if they are short."""

_FEW_WORDS = 3
_SHORTEST_WORD = 6
"""Of texts of few words, such as a password, all words of this length are pieces."""


def pieces_of(kind: str, text: str, *, is_source: bool = False) -> set[int]:
    """Return the pieces of a text. The words of a source are pieces if there are few."""
    folded = same_spelling(text)
    pieces = {digest(kind, found[0]) for found in _TELLING.finditer(folded)}
    words = words_of(text)
    if len(words) <= _FEW_WORDS or not is_source:
        pieces |= {digest(kind, word) for word in words if len(word) >= _SHORTEST_WORD}
    data = _NOT_WORD.sub("", folded).encode(errors="surrogatepass")
    hashes = [crc32(data[at : at + _RUN]) for at in range(len(data) - _RUN + 1)]
    chosen: set[bytes] = set()
    last = -1
    for start in range(max(len(hashes) - _WINDOW + 1, min(1, len(hashes)))):
        window = hashes[start : start + _WINDOW]
        least = start + window.index(min(window))
        if least != last:
            chosen.add(data[least : least + _RUN])
            last = least
    return pieces | {digest(kind, run.hex()) for run in chosen}


_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}){4,}")


def readings_of(text: str) -> Iterator[str]:
    """Yield the text as it is, and as it reads backwards, and decoded: from percent signs, base64 and hex."""
    yield text
    yield text[::-1]
    if "%" in text:
        yield unquote(text)
    for found in _BASE64.finditer(text):
        run = found[0].rstrip("=").replace("-", "+").replace("_", "/")
        try:
            yield base64.b64decode(run[: len(run) - (len(run) % 4 == 1)] + "=" * (-len(run) % 4)).decode()
        except (binascii.Error, UnicodeDecodeError):
            continue
    for found in _HEX.finditer(text):
        try:
            yield bytes.fromhex(found[0]).decode()
        except UnicodeDecodeError:
            continue
