"""What a hook said: exit code, stdout and stderr read as the hook contract has it.

Pure. The result is an output document in one spelling, or None for a hook that said nothing; a hook that
failed raises HookError.
"""

import json
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from hookgate.hooks.errors import HookError
from hookgate.translator.strictjson import dumps

Output = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended by itself; a negative exit code is the number of a signal."""

    exit_code: int
    stdout: bytes
    stderr: bytes


_TOOL_NAMES = re.compile(r"[\w.:-]+(?:\s*,\s*[\w.:-]+)*")
_DECISIONS = {"approve": "allow", "block": "deny"}


def _in_one_spelling(decision: Any) -> Any:
    return _DECISIONS.get(decision, decision) if isinstance(decision, str) else decision


_Decision = Annotated[Literal["allow", "deny", "ask"] | None, BeforeValidator(_in_one_spelling)]


class _Specific(BaseModel):
    """What one of the documents says within hookSpecificOutput; the rest is the event's to read."""

    model_config = ConfigDict(strict=True, extra="allow")

    permissionDecision: _Decision = None  # noqa: N815  # the contract's spelling
    permissionDecisionReason: str | None = None  # noqa: N815  # the contract's spelling


class _Fields(BaseModel):
    """The common fields; a key of the wrong type is an error that names it, an unknown key is ignored."""

    model_config = ConfigDict(strict=True, extra="allow")

    decision: _Decision = None
    reason: str | None = None
    continue_: Annotated[bool | None, Field(alias="continue")] = None
    stopReason: str | None = None  # noqa: N815  # the contract's spelling
    systemMessage: str | None = None  # noqa: N815  # the contract's spelling
    suppressOutput: bool | None = None  # noqa: N815  # the contract's spelling
    hookSpecificOutput: _Specific | None = None  # noqa: N815  # the contract's spelling


def read_output(value: Any) -> Output | None:
    """The output of a hook that hands over a value: checked, in one spelling. Raises HookError."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise HookError(f"gave {type(value).__name__} where an object or nothing is expected")
    try:
        fields = _Fields.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(key) for key in first["loc"])
        raise HookError(f"output.{place}: {first['msg']}") from None
    output = fields.model_dump(by_alias=True, exclude_none=True)
    specific = output.get("hookSpecificOutput", {})
    for key, alias in (("decision", "permissionDecision"), ("reason", "permissionDecisionReason")):
        if alias in specific:
            output.setdefault(key, specific[alias])
    return _as_json(output)


def read_process(event: str, name: str, ended: Ended) -> Output | None:
    """The output of a program that ended by itself.

    0: stdout is the output, JSON or else a message. 2: a denial, whatever was printed; the reason is
    stderr, else what stdout says. Anything else raises HookError.
    """
    printed = ended.stdout.decode("utf-8", errors="replace").strip()
    complaint = ended.stderr.decode("utf-8", errors="replace").strip()
    if ended.exit_code == 2:
        return _denial(name, printed, complaint)
    if ended.exit_code != 0:
        how = (
            f"exited with code {ended.exit_code}"
            if ended.exit_code > 0
            else f"died of signal {-ended.exit_code}"
        )
        raise HookError(f"{how}: {complaint[:200]}" if complaint else how)
    if not printed:
        return None
    found, value = _json(printed)
    if found and not isinstance(value, str):
        return read_output(value) if isinstance(value, dict) else None
    if event == "BeforeToolSelection" and _TOOL_NAMES.fullmatch(printed):
        names = [word.strip() for word in printed.split(",")]
        selection = {"mode": "ANY", "allowedFunctionNames": names}
        return {"hookSpecificOutput": {"hookEventName": event, "toolConfig": selection}}
    return {"decision": "allow", "systemMessage": printed}


def _denial(name: str, printed: str, complaint: str) -> Output:
    found, value = _json(printed)
    said: Output = {}
    if found and isinstance(value, dict):
        kinds = (("continue", bool), ("stopReason", str), ("systemMessage", str))
        said = {key: value[key] for key, kind in kinds if isinstance(value.get(key), kind)}
        printed = value["reason"] if isinstance(value.get("reason"), str) else ""
    reason = complaint or printed or f"Blocked by the hook {name!r}."
    return read_output({**said, "decision": "deny", "reason": reason}) or {}


def _as_json(output: Output) -> Output:
    """The output, which must be JSON since an edit of it becomes part of a body. Raises HookError.

    Half of a character pair, left by a JavaScript hook that cut a text within an emoji, becomes U+FFFD.
    """
    try:
        dumps(output)
    except UnicodeEncodeError:
        text = json.dumps(output, ensure_ascii=False)
        whole: Output = json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
        return whole
    except (TypeError, ValueError, RecursionError) as error:
        raise HookError(f"output: is not JSON: {error}") from None
    return output


def _json(text: str) -> tuple[bool, Any]:
    """Whether the text is JSON, and its value. What was encoded twice is decoded twice."""
    try:
        value = json.loads(text, parse_constant=_not_json, parse_int=_any_int)
        if isinstance(value, str) and value.lstrip().startswith("{"):
            return True, json.loads(value, parse_constant=_not_json, parse_int=_any_int)
    except (ValueError, RecursionError):
        return False, None
    return True, value


def _not_json(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _any_int(digits: str) -> int | float:
    return int(digits) if len(digits) < 4000 else float("inf")  # int() refuses more than 4300 digits
