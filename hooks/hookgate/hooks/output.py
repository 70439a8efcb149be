"""What a hook said: exit code, stdout and stderr read as the hook contract has it.

Pure. The result is an output document in one spelling, or None for a hook that said nothing; a hook that
failed raises HookError.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from hookgate.hooks.contract import OUTPUTS, AdvisoryOutput, HookOutput
from hookgate.hooks.errors import ExitCodeError, HookError
from hookgate.translator.strictjson import dumps

Output = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended by itself; a negative exit code is the number of a signal."""

    exit_code: int
    stdout: bytes
    stderr: bytes


DENIES = 2
"""The exit code that denies, whatever was printed."""

_NOT_ITS_OWN = frozenset({126, 127, *range(129, 193)})
"""The exit codes by which a shell reports a program that it cannot run, or that died of a signal."""

_TOOL_NAMES = re.compile(r"[\w.:-]+(?:\s*,\s*[\w.:-]+)*")


def read_output(value: Any, event: str = "") -> Output | None:
    """The output of a hook that hands over a value: checked, in one spelling. Raises HookError.

    What the event alone has is checked by its name; without one, only what all events have.
    """
    if value is None:
        return None
    if not isinstance(value, dict):
        raise HookError(f"gave {type(value).__name__} where an object or nothing is expected")
    try:
        fields = OUTPUTS.get(event, HookOutput).model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(key) for key in first["loc"])
        raise HookError(f"output.{place}: {first['msg']}") from None
    return _as_json(fields.canonical())


def read_process(event: str, name: str, ended: Ended) -> Output | None:
    """The output of a program that ended by itself.

    0: stdout is the output, JSON or else a message. 2: a denial, whatever was printed; the reason is
    stderr, else what stdout says. A signal raises HookError, as does a code by which a shell reports one or
    a missing program; any other code raises ExitCodeError.
    """
    printed = ended.stdout.decode("utf-8-sig", errors="replace").strip()
    complaint = ended.stderr.decode("utf-8", errors="replace").strip()
    if ended.exit_code == DENIES:
        return read_output(_denial(event, name, printed, complaint), event)
    if ended.exit_code != 0:
        told = f": {complaint[:200]}" if complaint else ""
        if ended.exit_code < 0:
            raise HookError(f"died of signal {-ended.exit_code}{told}")
        message = f"exited with code {ended.exit_code}{told}"
        raise HookError(message) if ended.exit_code in _NOT_ITS_OWN else ExitCodeError(message)
    return read_output(_printed(event, printed), event) if printed else None


def _printed(event: str, text: str) -> Any:
    """What a program that ended well has printed: an output, names of tools, or a message."""
    found, value = _json(text)
    if found and not isinstance(value, str):
        return value if isinstance(value, dict) else None
    if event == "BeforeToolSelection" and _TOOL_NAMES.fullmatch(text):
        names = [word.strip() for word in text.split(",")]
        selection = {"mode": "ANY", "allowedFunctionNames": names}
        return {"hookSpecificOutput": {"hookEventName": event, "toolConfig": selection}}
    return {"decision": "allow", "systemMessage": text}


def _denial(event: str, name: str, printed: str, complaint: str) -> Output:
    found, value = _json(printed)
    said: Output = {}
    if found and isinstance(value, dict):
        kinds = (("continue", bool), ("stopReason", str), ("systemMessage", str))
        said = {key: value[key] for key, kind in kinds if isinstance(value.get(key), kind)}
        printed = value["reason"] if isinstance(value.get("reason"), str) else ""
    reason = complaint or printed
    if issubclass(OUTPUTS.get(event, HookOutput), AdvisoryOutput):  # nothing to deny: it tells the user
        return {"systemMessage": reason or None, **said}
    return {**said, "decision": "deny", "reason": reason or f"Blocked by the hook {name!r}."}


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
