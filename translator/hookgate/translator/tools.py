"""The tools of a request: what it declares, what the model may call, and the selections of hooks.

`toolConfig` restricts the functions that the model may call. The API accepts names only with the modes ANY
and VALIDATED, and only names of declared functions; otherwise it answers 400. So a hook's selection is
converted to a valid form that offers exactly the functions which the hook allows.
"""

from typing import Any

from hookgate.translator.fields import (
    EditError,
    JsonObject,
    read,
    read_list,
    read_object,
    same,
    without,
    write,
)

MODES = ("AUTO", "ANY", "NONE", "VALIDATED")
_NAMING_MODES = ("ANY", "VALIDATED")


def show_tool_config(body: JsonObject) -> JsonObject | None:
    """Return `{"mode", "allowedFunctionNames", "functionCallingConfig": {the same}}`, or None if unset.

    Gemini CLI documents both the flat and the nested form, so a hook may use either.
    """
    config = read_object(read_object(body, "toolConfig"), "functionCallingConfig")
    flat = {
        key: value for key in ("mode", "allowedFunctionNames") if (value := read(config, key)) is not None
    }
    return {**flat, "functionCallingConfig": flat} if flat else None


def declared_names(body: JsonObject) -> list[str]:
    """Return the names of all declared functions, in order."""
    return [
        name
        for tool in read_list(body, "tools")
        if isinstance(tool, dict)
        for declaration in read_list(tool, "functionDeclarations")
        if isinstance(declaration, dict) and isinstance(name := declaration.get("name"), str)
    ]


def declared_descriptions(body: JsonObject) -> dict[str, str]:
    """Return the descriptions of declared functions by name, as far as they have one."""
    return {
        declaration["name"]: description
        for tool in read_list(body, "tools")
        if isinstance(tool, dict)
        for declaration in read_list(tool, "functionDeclarations")
        if isinstance(declaration, dict) and isinstance(declaration.get("name"), str)
        if isinstance(description := declaration.get("description"), str) and description
    }


def callable_names(body: JsonObject) -> frozenset[str]:
    """Return the functions that the model may call: declared functions that the calling config allows."""
    config = read_object(read_object(body, "toolConfig"), "functionCallingConfig")
    mode, names = read(config, "mode"), read_list(config, "allowedFunctionNames")
    if mode == "NONE":
        return frozenset()
    declared = frozenset(declared_names(body))
    return declared.intersection(names) if names and mode in _NAMING_MODES else declared


def read_tool_config(patch: Any, shown: JsonObject | None = None) -> JsonObject:
    """Return the changes in a flat, nested or snake_case selection: `{"mode"?, "allowedFunctionNames"?}`.

    A hook that edits one form of the selection it was `shown` returns the other form unchanged, so the form
    that differs counts. Raises EditError if the mode or the names are invalid.
    """
    if not isinstance(patch, dict):
        raise EditError("toolConfig", "an object", patch)
    nested = read(patch, "functionCallingConfig") or {}
    if not isinstance(nested, dict):
        raise EditError("toolConfig.functionCallingConfig", "an object", nested)
    selection: JsonObject = {}
    for key, check in (("mode", _read_mode), ("allowedFunctionNames", _read_names)):
        values = [value for source in (patch, nested) if (value := read(source, key)) is not None]
        changed = [value for value in values if not same(value, read(shown or {}, key))]
        if changed:
            selection[key] = check(changed[0])
    return selection


def _read_mode(value: Any) -> str:
    if value == "MODE_UNSPECIFIED":
        return "AUTO"
    if value not in MODES:
        raise EditError("toolConfig.mode", f"one of {', '.join(MODES)}", value)
    return str(value)


def _read_names(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise EditError("toolConfig.allowedFunctionNames", "a list of names", value)
    return list(value)


def apply_tool_config(body: JsonObject, patch: Any) -> JsonObject:
    """Return the body with a hook's tool selection applied, or `body` itself if nothing changes."""
    shown = show_tool_config(body) or {}
    selection = read_tool_config(patch, shown)
    declared = declared_names(body)
    if not selection or not declared:
        return body  # nothing changes, or there are no functions to select
    current = shown.get("mode")
    mode = selection.get("mode") or (current if current in MODES else "AUTO")
    names = selection.get("allowedFunctionNames", shown.get("allowedFunctionNames"))
    # Names that a hook returns with another mode are its selection, even if they are those of the request.
    if (
        mode == "NONE"
        or names is None
        or (mode == "AUTO" and "allowedFunctionNames" not in read_tool_config(patch))
    ):
        return _with_calling_config(body, mode, None)
    known = frozenset(declared)
    allowed = [name for name in names if name in known]
    if not allowed:
        # The API treats an empty list of names as all functions, so an empty selection becomes NONE.
        return _with_calling_config(body, "NONE", None)
    if mode in _NAMING_MODES:
        return _with_calling_config(body, mode, allowed)
    return apply_tools(_with_calling_config(body, mode, None) if shown else body, allowed)


def write_tool_config(body: JsonObject, patch: Any) -> JsonObject:
    """Write a tool selection into a body whose function declarations are not known.

    The selection is not converted to the form that the API accepts, which depends on the declarations. Raises
    EditError if it is invalid.
    """
    shown = show_tool_config(body) or {}
    selection = read_tool_config(patch, shown)
    if not selection:
        return body
    keys = ("mode", "allowedFunctionNames")
    written = {**{key: shown[key] for key in keys if key in shown}, **selection}
    if written.get("mode") == "NONE":
        written = {"mode": "NONE"}
    return write(body, "toolConfig", write(read_object(body, "toolConfig"), "functionCallingConfig", written))


def _with_calling_config(body: JsonObject, mode: str, names: list[str] | None) -> JsonObject:
    tool_config = read_object(body, "toolConfig")
    config = write(read_object(tool_config, "functionCallingConfig"), "mode", mode)
    config = without(config, "allowedFunctionNames")
    if names is not None:
        config = write(config, "allowedFunctionNames", names)
    return write(body, "toolConfig", write(tool_config, "functionCallingConfig", config))


def apply_tools(body: JsonObject, tools: Any) -> JsonObject:
    """Keep only the function declarations that `tools` names, and built-in tools.

    `tools` contains names, tool objects or declarations. Tool objects without remaining declarations are
    removed, and names that no longer exist are removed from the calling configuration.
    """
    keep = set(read_tools(tools))
    declared = declared_names(body)
    if keep.issuperset(declared):
        return body
    pruned = [tool for tool in (_prune(tool, keep) for tool in read_list(body, "tools")) if tool]
    body = write(body, "tools", pruned) if pruned else without(body, "tools")
    return _with_valid_names(body, [name for name in declared if name in keep])


def read_tools(tools: Any) -> list[str]:
    """Return the function names in a hook's list of names, tool objects or declarations."""
    if not isinstance(tools, list):
        raise EditError("tools", "a list of names or tools", tools)
    names: list[str] = []
    for index, tool in enumerate(tools):
        if isinstance(tool, str):
            names.append(tool)
        elif not isinstance(tool, dict):
            raise EditError(f"tools[{index}]", "a name or a tool object", tool)
        elif isinstance(tool.get("name"), str):
            names.append(tool["name"])
        else:
            names += declared_names({"tools": [tool]})
    return names


def _prune(tool: Any, keep: set[str]) -> Any:
    if not isinstance(tool, dict) or not read_list(tool, "functionDeclarations"):
        return tool
    declarations = read_list(tool, "functionDeclarations")
    left = [each for each in declarations if isinstance(each, dict) and each.get("name") in keep]
    return write(tool, "functionDeclarations", left) if left else without(tool, "functionDeclarations")


def _with_valid_names(body: JsonObject, declared: list[str]) -> JsonObject:
    shown = show_tool_config(body) or {}
    names = shown.get("allowedFunctionNames")
    if not declared and shown:
        tool_config = without(read_object(body, "toolConfig"), "functionCallingConfig")
        return write(body, "toolConfig", tool_config) if tool_config else without(body, "toolConfig")
    if not names or set(names) <= set(declared):
        return body
    known = frozenset(declared)
    left = [name for name in names if name in known]
    return _with_calling_config(body, shown.get("mode", "AUTO") if left else "NONE", left or None)
