"""Bodies that must not be read, because a hook and the API could understand them differently."""

import re
from collections.abc import Sequence
from typing import Any

from hookgate.translator.canonical import check_canonical, check_spellings
from hookgate.translator.errors import BodyError
from hookgate.translator.fields import JsonObject, camel, read, read_list

_ROLE = re.compile(r"[A-Za-z_]{0,32}")


def check_request(body: Any) -> JsonObject:
    """The body if it can be read in one way only; BodyError if not.

    A field in both spellings and inline data in two readings are refused (canonical.py). So is a text that
    is none, which no hook would see.
    """
    if not isinstance(body, dict):
        raise BodyError("", "the body has to be a JSON object")
    check_canonical(body)
    instruction, contents = read(body, "systemInstruction"), read(body, "contents")
    if instruction is not None:
        _check_content(instruction, "systemInstruction")
    if contents is not None and not isinstance(contents, list | dict):
        raise BodyError("contents", "the contents have to be a list of {role, parts}")
    for i, content in enumerate(read_list(body, "contents")):
        _check_content(content, f"contents[{i}]")
    for name in ("generationConfig", "toolConfig"):
        if not isinstance(read(body, name), dict | None):
            raise BodyError(name, "it has to be an object: no hook would see this one")
    if not isinstance(read(body, "tools"), list | dict | None):
        raise BodyError("tools", "the tools have to be a list: no hook would see these")
    for i, tool in enumerate(read_list(body, "tools")):
        _check_tool(tool, f"tools[{i}]")
    return body


def check_role(content: JsonObject, path: str) -> None:
    """Refuse a role that is no name: what else it holds, hooks need not be shown. Raises BodyError."""
    role = content.get("role")
    if role is not None and not (isinstance(role, str) and _ROLE.fullmatch(role)):
        raise BodyError(f"{path}.role" if path else "role", "a role has to be a name, such as user or model")


def check_keys(obj: Any, path: str, known: Sequence[str]) -> JsonObject:
    """The object at `path`, if it holds `known` fields alone: what another one holds, no hook would see.

    Raises BodyError, naming the first that is not known.
    """
    if not isinstance(obj, dict):
        raise BodyError(path, "it has to be an object")
    for key in obj:
        if camel(key) not in known:
            place = f"{path}.{key}" if path else key
            raise BodyError(place, f"hooks cannot be shown this field; known here are {', '.join(known)}")
    return obj


def check_response(body: Any) -> JsonObject:
    """The response, or event of one, if its candidates have the shape that hooks are shown; BodyError if not.

    What is shaped otherwise would reach the client unseen, or be joined to another candidate's text. Unknown
    fields are the upstream's own.
    """
    if not isinstance(body, dict):
        raise BodyError("", "the answer has to be a JSON object")
    if not isinstance(read(body, "candidates"), list | dict | None):
        raise BodyError("candidates", "the candidates have to be a list")
    for i, candidate in enumerate(read_list(body, "candidates")):
        if not isinstance(candidate, dict):
            raise BodyError(f"candidates[{i}]", "a candidate has to be an object")
        index = read(candidate, "index")
        if isinstance(index, bool) or not isinstance(index, int | None):
            raise BodyError(f"candidates[{i}].index", "an index has to be an integer")
        if (content := read(candidate, "content")) is not None:
            path = f"candidates[{i}].content"
            _check_content(content, path)
            check_spellings(content, path)
            for k, part in enumerate(read_list(content, "parts")):
                check_spellings(part, f"{path}.parts[{k}]")
                _check_call(read(part, "functionCall"), f"{path}.parts[{k}].functionCall")
    return body


def _check_call(call: Any, path: str) -> None:
    """A call that hooks cannot be asked about would reach the client's tools unseen."""
    if call is None:
        return
    if not isinstance(call, dict):
        raise BodyError(path, "a function call has to be an object {name, args}")
    if not isinstance(call.get("name"), str | None):
        raise BodyError(f"{path}.name", "the name of a function has to be a string")
    if not isinstance(call.get("args"), dict | None):
        raise BodyError(f"{path}.args", "the arguments of a function have to be an object")


def _check_content(content: Any, path: str) -> None:
    if not isinstance(content, dict):
        raise BodyError(path, "a content has to be an object {role, parts}")
    check_role(content, path)
    parts = content.get("parts")
    if type(parts) is not list:  # the usual case needs no second look
        if parts is not None and not isinstance(parts, dict):
            raise BodyError(f"{path}.parts", "the parts have to be a list of objects")
        parts = read_list(content, "parts")
    for i, part in enumerate(parts):
        if type(part) is not dict:
            raise BodyError(f"{path}.parts[{i}]", "a part has to be an object")
        text = part.get("text")
        if type(text) is not str and text is not None:
            raise BodyError(
                f"{path}.parts[{i}].text", "a text has to be a string: no hook would see this one"
            )


def _check_tool(tool: Any, path: str) -> None:
    if not isinstance(tool, dict):
        raise BodyError(path, "a tool has to be an object")
