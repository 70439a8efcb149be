"""Reads the outputs of hooks: values, and the exit code, stdout and stderr of programs. It does no I/O.

The result is an output document in canonical spelling, or None if the hook returned nothing. HookError is
raised if the hook failed.
"""

import json
import re
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from hookgate.hooks.errors import (
    ExitCodeError,
    HookError,
    InvalidOutputError,
    UnreadDecisionError,
    describe_mistake,
)
from hookgate.hooks.events import OUTPUTS, AdvisoryOutput, HookOutput
from hookgate.hooks.events.base import DECISIONS, keys_of
from hookgate.hooks.events.model import REQUEST_EDITS, RESPONSE_EDITS
from hookgate.hooks.settings.files import closest_name
from hookgate.translator.strictjson import dumps

Output = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """The result of a program that exited. A negative exit code is the number of a fatal signal."""

    exit_code: int
    stdout: bytes
    stderr: bytes


DENY_EXIT_CODE = 2
"""The exit code that denies the event, regardless of the output."""

_SHELL_EXIT_CODES = frozenset({126, 127, *range(129, 193)})
"""The exit codes with which a shell reports a program that it cannot run, or that a signal killed."""

_DECISIONS = ("decision", "continue", "permissionDecision")
"""Keys of an output that contain a decision about the call."""

_DECIDING_KEYS = (*_DECISIONS, "hookSpecificOutput")
"""Keys of an output that decide about the call."""

_DECISION = re.compile(rf"""["'](?:{"|".join(_DECISIONS)})["']\s*:""")
"""Matches a decision in text that is meant to be JSON."""

_OUTPUT_KEY = re.compile(rf"""["'](?:{"|".join(_DECIDING_KEYS)})["']\s*:""")
"""Matches a decision, or the object of edits, in text that is meant to be JSON."""

_TOOL_NAMES = re.compile(r"[\w.:-]+(?:\s*,\s*[\w.:-]+)*")


def read_output(value: Any, event: str = "") -> Output | None:
    """Validate the output value of a hook and return it in canonical spelling.

    The fields of `event` are checked, or only the fields that all events share if it is empty. Raises
    HookError if the value is invalid.
    """
    if value is None:
        return None
    if not isinstance(value, dict):
        raise InvalidOutputError(f"returned {type(value).__name__}; return an object or nothing")
    try:
        fields = OUTPUTS.get(event, HookOutput).model_validate(value)
    except ValidationError as error:
        raise InvalidOutputError(_describe_invalid(error.errors(include_url=False)[0])) from None
    return _ensure_json(fields.canonical())


_MISTAKES = {"literal_error": f"must be {DECISIONS}"}
_MAX_SHOWN = 40
"""The number of characters of an invalid value that a message repeats."""


def _describe_invalid(mistake: ErrorDetails) -> str:
    """Describe an invalid value of an output. Objects and lists are not repeated: they may contain much."""
    field = ".".join(str(key) for key in mistake["loc"])
    problem, value = describe_mistake(mistake, _MISTAKES), mistake["input"]
    if mistake["type"] == "missing":
        return f"output.{field}: {problem}"
    if isinstance(value, str | int | float):  # including true and false
        text = json.dumps(value, ensure_ascii=False)
        returned = text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
    else:
        names = {"dict": "an object", "list": "a list", "NoneType": "null"}
        returned = names.get(type(value).__name__, type(value).__name__)
    return f"output.{field}: {problem}, not {returned}"


def read_process(event: str, name: str, ended: ProcessResult) -> Output | None:
    """Return the output of a program that exited.

    With exit code 0, stdout is the output: JSON, or else a message. Exit code 2 is a denial; the reason is
    stderr, or else stdout. Raises HookError for a signal, and for the exit codes with which a shell reports a
    signal or a missing program; raises ExitCodeError for any other exit code, and UnreadDecisionError if only
    stderr contains a decision.
    """
    stdout, stderr = _decode(ended.stdout).strip(), _decode(ended.stderr).strip()
    if ended.exit_code == DENY_EXIT_CODE:
        return read_output(_denial(event, name, stdout, stderr), event)
    if ended.exit_code != 0:
        detail = f": {shorten_stderr(stderr)}" if stderr else ""
        if ended.exit_code < 0:
            raise HookError(f"was killed by signal {-ended.exit_code}{detail}", f"signal {-ended.exit_code}")
        kind = HookError if ended.exit_code in _SHELL_EXIT_CODES else ExitCodeError
        raise kind(f"exited with code {ended.exit_code}{detail}", f"exit code {ended.exit_code}")
    if stdout:
        return read_output(_read_stdout(event, stdout), event)
    if _decides(stderr):
        raise UnreadDecisionError("wrote a decision to stderr, where it is not read; print it to stdout")
    return None


def _decode(data: bytes) -> str:
    """Return text in UTF-8, UTF-16 or UTF-32, with or without a byte order mark."""
    return data.decode(json.detect_encoding(data), errors="replace")


def _decides(text: str) -> bool:
    """Return whether a text is one JSON object that would decide about the call if it were an output.

    An object with other keys is not: it is a line of a log.
    """
    is_json, value = _parse_json(text) if text.startswith("{") else (False, None)
    if not is_json or not isinstance(value, dict):
        return False
    return value.keys() <= {*_TOP_KEYS, *_DECIDING_KEYS} and not value.keys().isdisjoint(_DECIDING_KEYS)


def shorten_stderr(text: str) -> str:
    """Return the text or, if it is longer than 200 characters, its start and its end.

    The end matters because the last line of a Python traceback names the exception.
    """
    return text if len(text) <= 200 else f"{text[:100]} … {text[-100:]}"


def _read_stdout(event: str, text: str) -> Any:
    """Return the output that a successful program printed: a JSON object, names of tools, or a message.

    Other JSON values are ignored, except for strings, which are messages. Raises HookError for a text in an
    encoding that cannot be read, which may be a denial.
    """
    is_json, value = _parse_json(text)
    if is_json and isinstance(value, dict):
        return value
    if is_json and not isinstance(value, str) and not _OUTPUT_KEY.search(text):
        return None
    if event == "BeforeToolSelection" and _TOOL_NAMES.fullmatch(text):
        names = [word.strip() for word in text.split(",")]
        selection = {"mode": "ANY", "allowedFunctionNames": names}
        return {"hookSpecificOutput": {"hookEventName": event, "toolConfig": selection}}
    if "\0" in text:
        raise InvalidOutputError("printed null characters, so its output cannot be read; print UTF-8")
    return {"decision": "allow", "systemMessage": text}


def describe_unread(output: Output) -> str:
    """Return a warning if the output is a message that looks like a decision, or an empty string."""
    message = output.get("systemMessage")
    if not isinstance(message, str) or not output.keys() <= {"decision", "systemMessage"}:
        return ""
    if output.get("decision", "allow") != "allow" or not _OUTPUT_KEY.search(message):
        return ""
    printed = "a decision" if _DECISION.search(message) else "an output"
    return (
        f"printed {printed} that is not one valid JSON object on stdout, so it is not read; "
        "print one JSON object and nothing else, and write logs to stderr"
    )


def loses_decision(output: Output) -> bool:
    """Return whether the output is a message that contains a decision, which is therefore not read."""
    return bool(describe_unread(output)) and _DECISION.search(output["systemMessage"]) is not None


@dataclass(frozen=True, slots=True)
class IgnoredKey:
    """A key of an output that is not read.

    Attributes:
        path: The key, after the keys of the objects that contain it.
        remedy: A suggestion, such as the key that was probably meant.
    """

    path: str
    remedy: str

    @property
    def decides(self) -> bool:
        """Whether the key was probably meant to decide about the call or to edit it."""
        key = self.path.rpartition(".")[2]
        if key in _FOREIGN_KEYS or key in _EFFECTIVE:
            return True
        return closest_name(key, _EFFECTIVE if "." in self.path else _DECIDING_KEYS) is not None

    def __str__(self) -> str:
        return f"returned the key {self.path!r}, which is not read; {self.remedy}"


_MAX_IGNORED_KEYS = 8
_MAX_KEY_LENGTH = 64
"""Limits for the keys that are compared with known ones: an output may repeat data of the client."""

_TOP_KEYS = keys_of(HookOutput)
_SPECIFIC_KEYS = {event: output.specific_keys() | {"additionalContext"} for event, output in OUTPUTS.items()}
_EDIT_KEYS = {"llm_request": REQUEST_EDITS, "llm_response": RESPONSE_EDITS}
_CONTEXT_KEYS = {"hookEventName", "additionalContext", "permissionDecisionReason", "retryReason", "redacted"}
_EFFECTIVE = sorted({*_DECIDING_KEYS}.union(*_SPECIFIC_KEYS.values()) - _CONTEXT_KEYS)
"""The keys that decide about an event or edit it."""

_CLAUDE_CODE_EDITS = ("updatedInput", "updatedToolOutput", "updatedMCPToolOutput")
_FOREIGN_KEYS = {
    "behavior": "return `decision`",
    "permission": "return `decision`",
    "updated_input": "return the arguments as hookSpecificOutput.tool_input",
    "modifiedArgs": "return the arguments as hookSpecificOutput.tool_input",
    "updated_mcp_tool_output": "return the result as hookSpecificOutput.tool_result",
    "modifiedResult": "return the result as hookSpecificOutput.tool_result",
    "modifiedPrompt": "edit the prompt in BeforeModel, as hookSpecificOutput.llm_request",
    "followup_message": "deny AfterAgent, with the message as `reason`",
}
"""Keys with which hooks of other agents decide or edit, and what to return instead."""


def ignored_keys(output: Output, event: str) -> tuple[IgnoredKey, ...]:
    """Return the keys of an output that are misspelled, misplaced, or belong to another event.

    Other unknown keys are not returned, because newer agents may define them. Neither are those that repeat
    the hook's input.
    """
    specific = output.get("hookSpecificOutput") or {}
    edits = [(name, specific[name]) for name in _EDIT_KEYS if type(specific.get(name)) is dict]
    known = output.keys() <= _TOP_KEYS and specific.keys() <= _SPECIFIC_KEYS[event]
    if known and all(edit.keys() <= _EDIT_KEYS[name] for name, edit in edits):
        return ()
    repeats_input = "hook_event_name" in output
    unknown = _foreign(output) if repeats_input else _unknown(output, _TOP_KEYS)
    found = [
        *(IgnoredKey(key, _top_remedy(key, event)) for key in unknown),
        *(
            IgnoredKey(f"hookSpecificOutput.{key}", _specific_remedy(key, event))
            for key in _unknown(specific, _SPECIFIC_KEYS[event])
        ),
        *(
            IgnoredKey(f"hookSpecificOutput.{name}.{key}", _edit_remedy(key, name))
            for name, edit in edits
            for key in _unknown(edit, _EDIT_KEYS[name])
        ),
    ]
    return tuple(ignored for ignored in found if ignored.remedy)


def _unknown(document: Output, known: frozenset[str]) -> list[str]:
    """Return the first unknown keys of an object, after those of other agents."""
    foreign = _foreign(document)
    keys = chain(foreign, (key for key in document if key not in foreign))
    unknown = (key for key in keys if key not in known and len(key) <= _MAX_KEY_LENGTH)
    return list(islice(unknown, _MAX_IGNORED_KEYS))


def _foreign(document: Output) -> list[str]:
    """Return the keys with which hooks of other agents decide or edit, and which no input has."""
    return [key for key in (*_CLAUDE_CODE_EDITS, *_FOREIGN_KEYS) if key in document]


def _top_remedy(key: str, event: str) -> str:
    if key in _FOREIGN_KEYS:
        return _FOREIGN_KEYS[key]
    if key in _SPECIFIC_KEYS[event]:
        return "put it into hookSpecificOutput"
    if near := closest_name(key, sorted(_TOP_KEYS)):
        return f"did you mean {near!r}?"
    if near := closest_name(key, sorted(_SPECIFIC_KEYS[event])):
        return f"did you mean 'hookSpecificOutput.{near}'?"
    return _other_event(key)


def _specific_remedy(key: str, event: str) -> str:
    if key in _FOREIGN_KEYS:
        return _FOREIGN_KEYS[key]
    if key in _TOP_KEYS:
        return "put it at the top level of the output"
    if near := closest_name(key, sorted(_SPECIFIC_KEYS[event])):
        return f"did you mean {near!r}?"
    return _other_event(key)


def _edit_remedy(key: str, name: str) -> str:
    near = closest_name(key, sorted(_EDIT_KEYS[name]))
    return f"did you mean {near!r}?" if near else ""


def _other_event(key: str) -> str:
    events = [event for event, keys in _SPECIFIC_KEYS.items() if key in keys]
    return f"it belongs to hookSpecificOutput of {' and '.join(events)}" if events else ""


def _denial(event: str, name: str, stdout: str, stderr: str) -> Output:
    is_json, value = _parse_json(stdout)
    output: Output = {}
    if is_json and isinstance(value, dict):
        types = (("continue", bool), ("stopReason", str), ("systemMessage", str))
        output = {key: value[key] for key, type_ in types if isinstance(value.get(key), type_)}
        stdout = value["reason"] if isinstance(value.get("reason"), str) else ""
    reason = stderr or stdout
    if issubclass(OUTPUTS.get(event, HookOutput), AdvisoryOutput):  # the event cannot be denied
        return {"systemMessage": reason or None, **output}
    return {**output, "decision": "deny", "reason": reason or f"Blocked by the hook {name!r}."}


def _ensure_json(output: Output) -> Output:
    """Return the output if it can be encoded as JSON: edits become part of a body.

    A lone surrogate, such as a JavaScript hook leaves if it cuts a string within an emoji, becomes U+FFFD.
    Raises HookError if the output cannot be encoded.
    """
    try:
        dumps(output)
    except UnicodeEncodeError:
        text = json.dumps(output, ensure_ascii=False)
        repaired: Output = json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
        return repaired
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidOutputError(f"output: cannot be encoded as JSON: {error}") from None
    return output


def _parse_json(text: str) -> tuple[bool, Any]:
    """Return whether the text is JSON, and its value. A JSON object encoded twice is decoded twice."""
    try:
        value = json.loads(text, parse_constant=_reject_constant, parse_int=_parse_int)
        if isinstance(value, str) and value.lstrip().startswith("{"):
            return True, json.loads(value, parse_constant=_reject_constant, parse_int=_parse_int)
    except (ValueError, RecursionError):
        return False, None
    return True, value


def _reject_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _parse_int(digits: str) -> int | float:
    return int(digits) if len(digits) < 4000 else float("inf")  # int() refuses more than 4300 digits
