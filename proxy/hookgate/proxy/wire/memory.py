"""What hooks have made of a conversation's parts: the agent sends the whole of it again with each call.

The agent knows nothing of an edit on the wire, so what a hook hid from the model, or added for it, has to be
hidden and added in every later call as well.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import sha256

from hookgate.translator.fields import JsonObject, read_list, write
from hookgate.translator.strictjson import dumps

KEPT = 1000
"""Parts of one session that are remembered; of more the earliest are forgotten."""

Parts = tuple[JsonObject, ...]


@dataclass(slots=True)
class Memory:
    """A session as its calls show it."""

    started: bool = False
    prompt: str = ""
    """What the user asked last."""
    turn: str = ""
    """The fingerprint of the turn that was judged last: a call that is made again is no new turn."""
    _parts: OrderedDict[str, Parts | None] = field(default_factory=OrderedDict)

    def knows(self, place: int, part: JsonObject) -> bool:
        """Whether the part at this place of the conversation was judged already."""
        return fingerprint(place, part) in self._parts

    def keep(self, place: int, part: JsonObject, parts: Parts | None = None) -> None:
        """Remember that a part was judged, and what stands in its place."""
        self._parts[fingerprint(place, part)] = parts
        if len(self._parts) > KEPT:
            self._parts.popitem(last=False)

    def applied(self, body: JsonObject) -> JsonObject:
        """The request with all that was remembered in force; `body` itself when nothing is."""
        contents = read_list(body, "contents")
        new = [self._content(place, content) for place, content in enumerate(contents)]
        unchanged = all(a is b for a, b in zip(new, contents, strict=True))
        return body if unchanged else write(body, "contents", new)

    def _content(self, place: int, content: JsonObject) -> JsonObject:
        parts = read_list(content, "parts")
        found = [self._parts.get(fingerprint(place, part)) for part in parts]
        if not any(found):
            return content
        new = [each for part, stands in zip(parts, found, strict=True) for each in (stands or (part,))]
        return write(content, "parts", new)


def fingerprint(place: int, part: JsonObject) -> str:
    """A part at a place of a conversation."""
    return sha256(b"%d\0" % place + dumps(part)).hexdigest()
