"""Orders in texts: values that stand near words for an action, such as `delete` or `send`.

They are a heuristic, for values that the agent knows anyway, such as the ID of a file: who writes in another
language or in riddles is not found. Facts of orders have 32 bits, as a wrong one only denies a call.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from zlib import crc32

from hookgate.hooks.policies.flows.words import AROUND, fact_of, given_by, words_of
from hookgate.hooks.policies.options import compile_pattern
from hookgate.hooks.policies.spelling import same_spelling

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

_PAGES = """article articles link links page pages site sites url urls webpage webpages website
    websites"""
_ASKED: Mapping[str, Sequence[str]] = dict.fromkeys(_PAGES.split(), ("visit",))
"""What users speak of if they ask for an action."""


def _groups() -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for group, words in _ACTIONS.items():
        for word in words.split():
            groups.setdefault(word, []).append(group)
    return groups


_GROUPS = _groups()

_CUE_WORDS = """also always and can could do first have immediately just kindly must need now or please should
    simply then to will would you"""
_CUES = frozenset(_CUE_WORDS.split())
"""Words before an order, besides the beginning of a sentence."""

_BEFORE, _BEHIND = 80, 280
"""Characters before and behind a word for an action that may say what it is to be done to."""

_MAX_ORDERS = 5000
"""Words for actions of one text that are looked at. A text with more may ask for anything."""

_COMMON_WORDS = """a about after all an and any are as at be been before but by can do for from has have
    he her his i if in into is it its me more my no not of on or our out please she so some than that the
    their them then there these they this to up us was we were what when which who will with would you your"""
_COMMON = frozenset(_COMMON_WORDS.split())
"""Words that say nothing about a value."""

_NAME_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_IDS = ("id", "ids", "number", "no", "nr", "item", "entry")
_CALLED = 3
"""Words before a short number that may say what it is the number of."""
_SHORT_NUMBER = 4
_ESCAPED = re.compile(r"\\[nrt'\"]")
"""White space and quotes in texts that were encoded twice, such as the representation of an object."""
_SENTENCE = ".!?:;,-)>*#\"'`"
_LONGEST_CUE = 40
_SPACE = re.compile(r"\s")
_LONGEST_WORD = 200
_ACTION = rf"\b(?:{'|'.join(map(re.escape, _GROUPS))})\b"
_NO_SPACE = re.compile(r"(?<=[a-z])\.(?=[A-Z][a-z])")


def said_by_user(kind: str, text: str) -> tuple[set[int], set[int]]:
    """Return the facts that the user's text gives, with the actions that it names, and its short numbers.

    Where a new sentence begins without a space, the word before it is given as well.
    """
    given = given_by(kind, text)
    if _NO_SPACE.search(text):
        given |= given_by(kind, _NO_SPACE.sub(". ", text))
    words = words_of(text)
    actions = {group for word in words for group in (*_GROUPS.get(word, ()), *_ASKED.get(word, ()))}
    given |= {fact_of(kind, f"\0{action}") for action in actions}
    return given, set(_numbered_in(kind, words))


def asked_for(kind: str, tool: str) -> set[int]:
    """Return the facts of which each means that the user asks for an action of the tool."""
    return {fact_of(kind, f"\0{action}") for action in _actions_of(tool)}


def orders_in(kind: str, text: str) -> set[int] | None:
    """Return the facts that words stand near an order, or None if there are too many words for actions."""
    text = _ESCAPED.sub(" ", same_spelling(text))
    near: dict[str, set[str]] = {}
    facts: set[int] = set()
    done: dict[str, int] = {}
    for number, match in enumerate(compile_pattern(_ACTION).finditer(text)):
        if number == _MAX_ORDERS:
            return None
        if not _begins_order(text[max(0, match.start() - _LONGEST_CUE) : match.start()]):
            continue
        for group in _GROUPS[match[0]]:
            start = max(match.start() - _BEFORE, done.get(group, 0))
            done[group] = _end_of_word(text, match.end() + _BEHIND)
            window = [word.strip(AROUND) for word in text[start : done[group]].split()]
            near.setdefault(group, set()).update(window)
            facts.update(_numbered_in(kind, window))
    for group, found in near.items():
        start = crc32(f"{kind}\0{group}\0".encode())
        facts.update(crc32(word.encode(), start) for word in found if word and word not in _COMMON)
    return facts


def _end_of_word(text: str, at: int) -> int:
    """Return the end of the word at a position, unless that is far away."""
    space = _SPACE.search(text, at, at + _LONGEST_WORD)
    return space.start() if space else at + _LONGEST_WORD


def _begins_order(before: str) -> bool:
    """Return whether orders begin behind a text: a sentence, a line, or a word such as `please`."""
    words = before.split()
    if not words or "\n" in before[len(before.rstrip()) :] or before.rstrip()[-1] in _SENTENCE:
        return True
    return words[-1].strip(AROUND) in _CUES


def ordered(kind: str, tool: str, value: str) -> list[list[int]]:
    """Return what has to be known if a text asks for an action of the tool with a value.

    That is a list of facts for each word, of which one has to be known: the word stands near an order. Short
    numbers stand everywhere, so one also has to be called an ID, or what the tool's name says.
    """
    words = [word for word in words_of(value) if word not in _COMMON]
    if not words:
        return [[]]
    starts = [crc32(f"{kind}\0{action}\0".encode()) for action in _actions_of(tool)]
    near = [[crc32(word.encode(), start) for start in starts] for word in words]
    return near + numbered(kind, tool, value)


def numbered(kind: str, tool: str, value: str) -> list[list[int]]:
    """Return, for each short number in a value, the facts that it is called an ID, or as the tool is."""
    names = [part.lower() for part in _NAME_PARTS.findall(tool)]
    called = [*_IDS, *(name for name in names if name not in _GROUPS and len(name) > 2)]
    numbers = [word for word in words_of(value) if _is_number(word)]
    return [[_called(kind, name, word) for name in called] for word in numbers]


def _numbered_in(kind: str, words: Sequence[str]) -> Iterator[int]:
    """Yield the facts of what stands shortly before short numbers."""
    for at, word in enumerate(words):
        if _is_number(word):
            names = (name for name in words[max(0, at - _CALLED) : at] if not _is_number(name))
            yield from (_called(kind, name, word) for name in names)


def _called(kind: str, name: str, number: str) -> int:
    return crc32(f"{kind}\0\0{name}\0{number}".encode())


def _is_number(word: str) -> bool:
    return len(word) <= _SHORT_NUMBER and word.isdigit()


def _actions_of(tool: str) -> list[str]:
    """Return the groups of actions in a tool's name, such as `send` for `send_email`."""
    names = [part.lower() for part in _NAME_PARTS.findall(tool)]
    return sorted({group for name in names for group in (*_GROUPS.get(name, ()), *_TOOL_WORDS.get(name, ()))})
