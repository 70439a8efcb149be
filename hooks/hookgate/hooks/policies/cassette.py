"""The policy `cassette`: records answers and replays them for the same request. For tests."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from hookgate.hooks.policies.canonical import canonical_form, digest
from hookgate.hooks.policies.options import Options, Pattern, Pointer, compile_pattern, read_options
from hookgate.hooks.policies.redact import SENSITIVE, TextRedactor, shared_scanner
from hookgate.hooks.policy_environment import Policy, PolicyEnvironment
from hookgate.hooks.session import SessionContext
from hookgate.hooks.settings.editing import write_atomically
from hookgate.hooks.threads import run_in_file_thread
from hookgate.hooks.timestamps import utc_text
from hookgate.translator import declared_names
from hookgate.translator.fields import JsonObject, is_text, joined_text, read, read_list, read_object


def masking() -> Callable[[str], str]:
    """Return a function that masks credentials and personal data, such as `[EMAIL]` for an email address.

    Masks in the text are left unchanged.
    """
    scanner = shared_scanner(SENSITIVE)

    def mask(text: str) -> str:
        redactor = TextRedactor(scanner, lambda kind, original: f"[{kind}]")
        return "".join(fragment.output for fragment in (*redactor.feed(text), *redactor.finish()))

    return mask


class RecordingFolder:
    """Recorded answers in one folder, by the keys of their requests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, key: str) -> JsonObject | None:
        """Return the answer to a request as a REST body. Returns None if there is none.

        Raises OSError, or ValueError for an invalid recording.
        """
        path = self._path(key)
        try:
            recording = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise ValueError(f"{path}: is not JSON: {error}; fix or delete the file") from None
        answer = recording.get("answer") if isinstance(recording, dict) else None
        if not isinstance(answer, dict):
            raise ValueError(f"{path}: must contain an `answer` object; fix or delete the file")
        return answer

    def write(self, key: str, request: JsonObject, answer: JsonObject) -> None:
        """Record an answer, replacing an older one. `request` is a summary for people. Raises OSError."""
        now = utc_text(precision="seconds")
        recording = {"key": key, "recorded": now, "request": request, "answer": answer}
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        text = json.dumps(recording, indent=2, ensure_ascii=False) + "\n"
        write_atomically(self._path(key), text, mode=0o600)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"


_NON_TEXT_FIELDS = frozenset(
    {"thoughtSignature", "thought_signature", "data", "mimeType", "mime_type", "role", "name", "id"}
    | {"finishReason", "modelVersion", "responseId"}
)
"""Fields whose strings are identifiers or data, not text."""

_CALLS = ("functionCall", "functionResponse")

_MAX_SUMMARY = 200
"""The maximum number of characters of a text in a summary."""


def significant_request(llm_request: JsonObject) -> JsonObject:
    """Return the fields of a request that identify it, in canonical form.

    These are model, contents, systemInstruction, tools, toolConfig and generationConfig. `llm_request` is the
    request in the view `raw`. Signatures and the IDs of calls are left out, because a model generates new
    ones each time. A model's turn that came in several events is joined, as it is in a recording.
    """
    fields: JsonObject = {
        "model": llm_request["model"],
        "contents": _turns(read_list(llm_request, "contents")),
        "systemInstruction": read(llm_request, "systemInstruction"),
        "tools": read_list(llm_request, "tools"),
        "toolConfig": read_object(llm_request, "toolConfig").get("functionCallingConfig"),
        "generationConfig": llm_request.get("config"),
    }
    return {name: value for name, value in canonical_form(fields).items() if value not in ({}, [])}


def summary(llm_request: JsonObject) -> JsonObject:
    """Return a summary of a request, for people who read a recording."""
    contents = [content for content in read_list(llm_request, "contents") if isinstance(content, dict)]
    fields: JsonObject = {
        "model": llm_request["model"],
        "turns": len(contents),
        "system": _shortened(joined_text(read_object(llm_request, "systemInstruction"))),
        "last": _turn_summary(contents[-1]) if contents else "",
        "tools": declared_names(llm_request),
    }
    return {name: value for name, value in fields.items() if value}


def without_fields(document: Any, pointers: Sequence[str]) -> Any:
    """Return the document without the values at these JSON Pointers. An item of a list becomes null."""
    for pointer in pointers:
        steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
        document = _without_value(document, steps)
    return document


def with_masked_texts(
    value: Any, change: Callable[[str], str], spared: frozenset[str] = _NON_TEXT_FIELDS
) -> Any:
    """Return the value with `change` applied to every string in it.

    Keys are unchanged, and so are the strings in `spared` fields. In arguments and results nothing is
    spared, because their fields are the caller's.
    """
    if isinstance(value, dict):
        return {
            key: item
            if key in spared and isinstance(item, str)
            else with_masked_texts(item, change, frozenset() if key in ("args", "response") else spared)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [with_masked_texts(item, change, spared) for item in value]
    return change(value) if isinstance(value, str) else value


def _turns(contents: Sequence[Any]) -> list[Any]:
    """Return the turns in canonical form. Consecutive contents of the model are joined into one turn."""
    turns: list[Any] = []
    for content in contents:
        turn = {**content, "parts": _parts(content)} if isinstance(content, dict) else content
        if turns and _has_model_role(turn) and _has_model_role(turns[-1]):
            turns[-1]["parts"] += turn["parts"]
        else:
            turns.append(turn)
    return [
        {**turn, "parts": _joined_parts(turn["parts"])} if _has_model_role(turn) else turn for turn in turns
    ]


def _has_model_role(content: Any) -> bool:
    """Return whether a content has the model's role, even if it is a tool's result: keys depend on it."""
    return isinstance(content, dict) and content.get("role") == "model"


def _parts(content: JsonObject) -> list[Any]:
    return [_part(part) for part in read_list(content, "parts")]


def _joined_parts(parts: Sequence[Any]) -> list[Any]:
    """Return the parts with all text joined into one part, and all thoughts into another."""
    joined: list[Any] = []
    text_parts: dict[bool, JsonObject] = {}
    for part in parts:
        if not is_text(part):
            joined.append(part)
        elif (first := text_parts.get(thought := bool(part.get("thought")))) is not None:
            first["text"] += part["text"]
        elif part["text"]:
            joined.append(text_parts.setdefault(thought, part))
    return joined


def _part(part: Any) -> Any:
    """Return the part in canonical form, without what differs from answer to answer."""
    canonical = canonical_form(part)
    if not isinstance(canonical, dict):
        return canonical
    canonical.pop("thoughtSignature", None)
    for name in _CALLS:
        if isinstance(canonical.get(name), dict):
            canonical[name].pop("id", None)
    return canonical


def _without_value(value: Any, steps: Sequence[str]) -> Any:
    step, *rest = steps
    if isinstance(value, dict) and step in value:
        kept = {key: item for key, item in value.items() if key != step}
        return {**value, step: _without_value(value[step], rest)} if rest else kept
    if isinstance(value, list) and step.isdigit() and int(step) < len(value):
        at = int(step)
        return [*value[:at], _without_value(value[at], rest) if rest else None, *value[at + 1 :]]
    return value


def _turn_summary(content: JsonObject) -> str:
    """Return a summary of a turn: its text, or else the names of the tools whose results it has."""
    results = [
        read_object(part, "functionResponse").get("name")
        for part in read_list(content, "parts")
        if isinstance(part, dict) and read(part, "functionResponse") is not None
    ]
    return _shortened(joined_text(content)) or (
        f"results of {', '.join(map(str, results))}" if results else ""
    )


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_SUMMARY else f"{text[: _MAX_SUMMARY - 1]}…"


TextRewrite = Callable[[str], str]

_NOT_RECORDED = (
    "No answer to this request is recorded: there is no {key}.json in {folder}. "
    'Record it with the mode "auto" or "record", or list what varies in "ignore" or "blank".'
)
_NO_REQUEST = "Nothing was recorded: the cassette must be configured for BeforeModel as well."
_WRONG_VIEW = 'a cassette needs complete requests and answers: remove its "view"'
_UNFINISHED = "Nothing was recorded: the answer is incomplete."


class CassetteOptions(Options):
    """The options of the policy `cassette`."""

    mode: Literal["record", "replay", "auto"] = "auto"
    """`record`: always call the model, and record; `replay`: never call it; `auto`: call it for requests that
    are not recorded."""

    folder: str = Field(default="cassettes", min_length=1)
    """The folder of the recordings, relative to the project folder."""

    ignore: tuple[Pointer, ...] = Field(default=(), strict=False)
    """Parts of a request to ignore, by JSON Pointer, such as `/generationConfig/seed` or `/contents/0`."""

    blank: tuple[Pattern, ...] = Field(default=(), strict=False)
    """Patterns of text to ignore in a request, such as dates and names of folders."""

    redact: bool = True
    """Whether to mask secrets and personal data in recordings, and ignore them in requests."""


def cassette_policy(options: Mapping[str, Any], environment: PolicyEnvironment) -> Policy:
    """Create the policy from its options. Raises ValueError if they are invalid."""
    settings = read_options(CassetteOptions, options)
    return _Cassette(settings, environment.root, masking() if settings.redact else str).judge


class _Cassette:
    """The policy `cassette` with its options."""

    def __init__(self, options: CassetteOptions, root: Path, redact: TextRewrite) -> None:
        self._options = options
        self._recordings = RecordingFolder((root / options.folder).resolve())
        self._redact = redact
        self._blanks = [compile_pattern(pattern) for pattern in options.blank]

    async def judge(self, event: dict[str, Any], session: SessionContext) -> dict[str, Any] | None:
        if event["hook_event_name"] == "BeforeModel":
            return await self._before_model(event["llm_request"], session)
        if event["hook_event_name"] == "AfterModel" and self._options.mode != "replay":
            return await self._after_model(event["llm_response"], session)
        return None

    async def _before_model(self, request: JsonObject, session: SessionContext) -> dict[str, Any] | None:
        if "contents" not in request:  # all requests would have the same key
            raise ValueError(_WRONG_VIEW)
        key = self._key(request)
        answer = (
            None if self._options.mode == "record" else await run_in_file_thread(self._recordings.read, key)
        )
        if answer is not None:
            return {"hookSpecificOutput": {"llm_response": {"raw": answer}}}
        if self._options.mode == "replay":
            reason = _NOT_RECORDED.format(key=key, folder=self._recordings.folder)
            return {"decision": "deny", "reason": reason}
        session.call_state.values[self._call_key] = key, summary(with_masked_texts(request, self._redact))
        return None

    async def _after_model(self, response: JsonObject, session: SessionContext) -> dict[str, Any] | None:
        if self._call_key not in session.call_state.values:
            return {"systemMessage": _NO_REQUEST}
        answer = response.get("raw")
        if answer is None:
            raise ValueError(_WRONG_VIEW)
        if any(read(candidate, "finishReason") is None for candidate in read_list(answer, "candidates")):
            return {"systemMessage": _UNFINISHED}
        key, request_summary = session.call_state.values[self._call_key]
        await run_in_file_thread(
            self._recordings.write, key, request_summary, with_masked_texts(answer, self._redact)
        )
        return None

    @property
    def _call_key(self) -> tuple[str, Path]:
        """The key in `CallState.values` under which a call keeps the key of its request."""
        return "cassette", self._recordings.folder

    def _key(self, request: JsonObject) -> str:
        """Return the key of a request. Text that would be masked does not change the key."""
        significant = without_fields(significant_request(request), self._options.ignore)
        return digest(with_masked_texts(significant, self._normalize))

    def _normalize(self, text: str) -> str:
        text = self._redact(text)
        for pattern in self._blanks:
            text = pattern.sub("", text)
        return text
