"""Bodies that must not be read, because a hook and the API could understand them differently."""

from typing import Any

from hookgate.translator.errors import BodyError
from hookgate.translator.fields import JsonObject, camel, read, read_list, read_object


def check_request(body: Any) -> JsonObject:
    """The body if it can be read in one way only; BodyError if not.

    A field spelled in both cases within one object is refused: the API takes one of them, and a hook may
    have seen the other. So is a text that is none, which no hook would see. Objects whose keys belong to
    the caller (arguments, results, schemas) are exempt.
    """
    if not isinstance(body, dict):
        raise BodyError("", "the body has to be a JSON object")
    check_spellings(body, "")
    for name in ("generationConfig", "toolConfig"):
        check_spellings(read_object(body, name), name)
    calling = read_object(read_object(body, "toolConfig"), "functionCallingConfig")
    check_spellings(calling, "toolConfig.functionCallingConfig")
    instruction, contents = read(body, "systemInstruction"), read(body, "contents")
    if instruction is not None:
        _check_content(instruction, "systemInstruction")
    if contents is not None and not isinstance(contents, list | dict):
        raise BodyError("contents", "the contents have to be a list of {role, parts}")
    for i, content in enumerate(read_list(body, "contents")):
        _check_content(content, f"contents[{i}]")
    for i, tool in enumerate(read_list(body, "tools")):
        _check_tool(tool, f"tools[{i}]")
    return body


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
            _check_content(content, f"candidates[{i}].content")
            for k, part in enumerate(read_list(content, "parts")):
                _check_call(read(part, "functionCall"), f"candidates[{i}].content.parts[{k}].functionCall")
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
    check_spellings(content, path)
    if not isinstance(content.get("parts"), list | dict | None):
        raise BodyError(f"{path}.parts", "the parts have to be a list of objects")
    for i, part in enumerate(read_list(content, "parts")):
        if not isinstance(part, dict):
            raise BodyError(f"{path}.parts[{i}]", "a part has to be an object")
        if not isinstance(part.get("text"), str | None):
            raise BodyError(
                f"{path}.parts[{i}].text", "a text has to be a string: no hook would see this one"
            )
        check_spellings(part, f"{path}.parts[{i}]")


def _check_tool(tool: Any, path: str) -> None:
    if not isinstance(tool, dict):
        raise BodyError(path, "a tool has to be an object")
    check_spellings(tool, path)
    for i, declaration in enumerate(read_list(tool, "functionDeclarations")):
        if isinstance(declaration, dict):
            check_spellings(declaration, f"{path}.functionDeclarations[{i}]")


def check_spellings(obj: JsonObject, path: str) -> None:
    """Raises BodyError for an object that holds a field in both spellings."""
    for key in obj:
        if (other := camel(key)) != key and other in obj:
            place = f"{path}.{other}" if path else other
            raise BodyError(place, f"the field is given twice, as {key!r} and {other!r}; send it once")
