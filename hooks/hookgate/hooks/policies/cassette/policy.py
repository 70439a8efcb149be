"""The policy `cassette`: BeforeModel answers from the tape, AfterModel records.

    {"type": "builtin", "builtin": "cassette", "options": {
      "folder": "tests/cassettes", "mode": "replay", "blank": ["Today is [^.]*"]}}

The same hook belongs under both events, last of each: it answers the request as it would go upstream, and
records the answer as the client gets it.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from hookgate.hooks.kinds.builtin import Policy, Surroundings
from hookgate.hooks.policies.canonical import digest
from hookgate.hooks.policies.cassette.keys import counted, summary, with_texts, without
from hookgate.hooks.policies.cassette.masking import masking
from hookgate.hooks.policies.cassette.tape import Tape
from hookgate.hooks.policies.options import Options, Pattern, Pointer, compiled, read_options
from hookgate.hooks.session import Session
from hookgate.translator.fields import JsonObject, read, read_list

Change = Callable[[str], str]

_NOT_THERE = (
    "No answer to this request is on tape: there is no {key}.json in {folder}. "
    'Record it with the mode "auto" or "record", or put what varies into "ignore" or "blank".'
)
_NOT_ASKED = "Nothing was recorded: the cassette has to stand under BeforeModel as well."
_NOT_SHOWN = 'a cassette has to be shown requests and answers as they are: leave out its "view"'
_UNFINISHED = "Nothing was recorded: the answer did not end by itself."


class CassetteOptions(Options):
    """Where the tape is, and what is done with it."""

    mode: Literal["record", "replay", "auto"] = "auto"
    """`record`: ask the model and record; `replay`: never ask it; `auto`: ask it for what is not on tape."""

    folder: str = Field(default="cassettes", min_length=1)
    """The folder of the recordings, from the project folder."""

    ignore: tuple[Pointer, ...] = Field(default=(), strict=False)
    """What of a request does not count, by JSON Pointer: `/generationConfig/seed`, `/contents/0`."""

    blank: tuple[Pattern, ...] = Field(default=(), strict=False)
    """What of its texts does not count: dates, names of folders."""

    redact: bool = True
    """Whether secrets and personal data are masked in what is recorded, and do not count in a request."""


def cassette_policy(options: Mapping[str, Any], surroundings: Surroundings) -> Policy:
    """The policy for these options. Raises ValueError."""
    known = read_options(CassetteOptions, options)
    return _Cassette(known, surroundings.root, masking() if known.redact else str).act


class _Cassette:
    def __init__(self, options: CassetteOptions, root: Path, redact: Change) -> None:
        self._options = options
        self._tape = Tape((root / options.folder).resolve())
        self._redact = redact
        self._blanks = [compiled(pattern) for pattern in options.blank]

    async def act(self, event: dict[str, Any], session: Session) -> dict[str, Any] | None:
        if event["hook_event_name"] == "BeforeModel":
            return await self._asked(event["llm_request"], session)
        if event["hook_event_name"] == "AfterModel" and self._options.mode != "replay":
            return await self._answered(event["llm_response"], session)
        return None

    async def _asked(self, request: JsonObject, session: Session) -> dict[str, Any] | None:
        if "contents" not in request:  # all requests would be the same
            raise ValueError(_NOT_SHOWN)
        key = self._key(request)
        answer = None if self._options.mode == "record" else await asyncio.to_thread(self._tape.read, key)
        if answer is not None:
            return {"hookSpecificOutput": {"llm_response": {"raw": answer}}}
        if self._options.mode == "replay":
            reason = _NOT_THERE.format(key=key, folder=self._tape.folder)
            return {"decision": "deny", "reason": reason}
        session.call.kept[self._place] = key, summary(with_texts(request, self._redact))
        return None

    async def _answered(self, response: JsonObject, session: Session) -> dict[str, Any] | None:
        if self._place not in session.call.kept:
            return {"systemMessage": _NOT_ASKED}
        answer = response.get("raw")
        if answer is None:
            raise ValueError(_NOT_SHOWN)
        if any(read(each, "finishReason") is None for each in read_list(answer, "candidates")):
            return {"systemMessage": _UNFINISHED}
        key, told = session.call.kept[self._place]
        await asyncio.to_thread(self._tape.write, key, told, with_texts(answer, self._redact))
        return None

    @property
    def _place(self) -> tuple[str, Path]:
        """Where a call keeps the key of its request between the two events."""
        return "cassette", self._tape.folder

    def _key(self, request: JsonObject) -> str:
        """The key of a request, in which a masked text is the same as the one that was recorded."""
        what = with_texts(without(counted(request), self._options.ignore), self._counted)
        return digest(what)

    def _counted(self, text: str) -> str:
        text = self._redact(text)
        for pattern in self._blanks:
            text = pattern.sub("", text)
        return text
