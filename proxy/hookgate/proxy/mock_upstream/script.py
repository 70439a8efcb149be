"""The script of the mock upstream: typed rules that determine the answer, or the error, for a request.

This module does not depend on a server: it reads a script, and picks the rule for a described request.
"""

import logging
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from hookgate.hooks.errors import describe_mistake
from hookgate.hooks.settings.files import is_yaml

log = logging.getLogger("hookgate")

Part = dict[str, Any]

_KINDS = ("text", "chunks", "parts", "responses", "error")
_NOT_JSON = (
    "rules[%d] of the script answers a call that requires JSON with other text, so the client may ask again "
    'and again; to leave such calls to the default answers, write "json": false in its "when"'
)
_MANUAL = 'The format is on the page "The mock upstream" of the documentation.'


class ScriptError(ValueError):
    """Raised if a script cannot be used. The message has the file, the place in it, and the remedy."""


class _Strict(BaseModel):
    # A misspelled or mistyped field must be an error, because the rule would match other requests.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class RuleCondition(_Strict):
    """The conditions of a rule. It applies if all conditions that are set are met."""

    text: str | None = None  # a substring of the last user text
    model: str | None = None  # a glob, for example "gemini-3.*"
    stream: bool | None = None
    requires_json: bool | None = Field(default=None, alias="json")  # pydantic's models have a method `json`
    tool_response: Literal[True] | str | None = (
        None  # any tool's response in the last content, or this tool's
    )


class Failure(_Strict):
    """An error to answer with; see EmbeddedApiError."""

    status: int = Field(ge=400, le=599)
    message: str


class Pace(_Strict):
    """The delays of an answer's events in milliseconds, and the number of events before a cut."""

    delay_ms: int = Field(default=0, ge=0)
    chunk_delay_ms: int = Field(default=0, ge=0)
    cut_after: int | None = Field(default=None, ge=0)


class ScriptedAnswer(Pace):
    """One answer: exactly one of text, chunks, parts, responses, error."""

    text: str | None = None
    chunks: list[str | list[Part]] | None = Field(default=None, min_length=1)
    parts: list[Part] | None = None
    responses: list[dict[str, Any]] | None = Field(default=None, min_length=1)
    error: Failure | None = None
    model: str | None = Field(
        default=None, min_length=1
    )  # that the answer is from; default: the requested one
    finish_reason: str = Field(default="STOP", alias="finishReason")

    @model_validator(mode="after")
    def _one_kind(self) -> "ScriptedAnswer":
        given = [kind for kind in _KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            raise ValueError(f"give exactly one of {', '.join(_KINDS)} (given: {', '.join(given) or 'none'})")
        return self


class ScriptRule(_Strict):
    """The answer for requests that meet `when`: for the first `times` of them, by default for all."""

    when: RuleCondition = RuleCondition()
    times: int | None = Field(default=None, ge=1)
    answer: ScriptedAnswer


class Script(_Strict):
    """Rules in order. The first that matches and has uses left applies."""

    rules: list[ScriptRule]


@dataclass(frozen=True)
class ScriptScene:
    """The facts about one generative request that conditions can check."""

    text: str
    model: str
    stream: bool
    tool_responses: tuple[str, ...]  # names of the functions whose responses are in the last content
    requires_json: bool = False


class Player:
    """Plays a script for one running server, and counts how often each rule was used."""

    def __init__(self, script: Script) -> None:
        self._rules = script.rules
        self._uses = [0] * len(script.rules)
        self._warned: set[int] = set()

    def pick(self, scene: ScriptScene) -> ScriptedAnswer | None:
        """Use the first matching rule with uses left, and return its answer, or None if there is none."""
        for index, rule in enumerate(self._rules):
            if self._uses[index] != rule.times and _matches(rule.when, scene):
                self._uses[index] += 1
                if scene.requires_json and index not in self._warned and not _may_be_json(rule.answer):
                    self._warned.add(index)
                    log.warning(_NOT_JSON, index)
                return rule.answer
        return None


def load_script(path: str | Path) -> Script:
    """Read a script from a JSON file. Raises ScriptError if it cannot be read or is invalid."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ScriptError(
            f"{path}: cannot be read ({error.strerror}). Name a readable script file."
        ) from None
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        if is_yaml(Path(path), data.decode(errors="replace")):
            raise ScriptError(f"{path}: is YAML, but a script is JSON. Write it as JSON. {_MANUAL}") from None
        raise ScriptError(f"{path}: {place}: not JSON ({error.msg}). Correct it. {_MANUAL}") from None
    try:
        return Script.model_validate(value)
    except ValidationError as error:
        raise ScriptError(f"{path}: {_explained(error.errors(), value)} {_MANUAL}") from None


def _may_be_json(answer: ScriptedAnswer) -> bool:
    """Return whether the text of an answer is JSON, or the answer has parts of its own or none at all."""
    chunks = answer.chunks or []
    texts = [answer.text] if answer.text is not None else [each for each in chunks if isinstance(each, str)]
    if not texts or len(texts) < len(chunks):
        return True
    try:
        orjson.loads("".join(texts))
    except orjson.JSONDecodeError:
        return False
    return True


def _matches(when: RuleCondition, scene: ScriptScene) -> bool:
    return (
        (when.text is None or when.text in scene.text)
        and (when.model is None or fnmatchcase(scene.model, when.model))
        and (when.stream is None or when.stream == scene.stream)
        and when.requires_json in (None, scene.requires_json)
        and _tool_response_matches(when.tool_response, scene.tool_responses)
    )


def _tool_response_matches(wanted: Literal[True] | str | None, names: tuple[str, ...]) -> bool:
    if wanted is None:
        return True
    return bool(names) if wanted is True else wanted in names


def _explained(errors: list[ErrorDetails], value: Any) -> str:
    """Return the first mistake as `place: problem.` The others are usually consequences of it."""
    place = _place(errors[0], value)
    # A field that takes several types reports each type that did not fit, all at the same place.
    problems = {describe_mistake(error): None for error in errors if _place(error, value) == place}
    return f"{place}: {' or '.join(problems)}."


def _place(error: ErrorDetails, value: Any) -> str:
    """Return the path of a mistake in the file, for example `rules[2].answer.chunks`."""
    place = ""
    for step in error["loc"]:
        if isinstance(value, list) and isinstance(step, int):
            place += f"[{step}]"
            value = value[step]
        elif isinstance(value, dict) and (step in value or error["type"] == "missing"):
            place += f".{step}"
            value = value.get(step)
        else:  # pydantic's label for a branch of a union, which does not appear in the file
            break
    return place.removeprefix(".") or "the whole file"
