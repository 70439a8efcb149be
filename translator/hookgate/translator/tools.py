"""The tools of a request: what it declares, what the model may call, and the selections of hooks.

`toolConfig` restricts the functions that the model may call. The API accepts names only with the modes ANY
and VALIDATED, and only names of declared functions; otherwise it answers 400. So a hook's selection is
converted to a valid form that offers exactly the functions which the hook allows.

Besides functions, which the client runs, a request can offer *hosted* tools, which the API runs: searches,
code, servers of others. Each is a field of a tool, and the field's name is its kind. No list of kinds is
needed: what a selection does not name is removed. A selection can also repeat some of them with their
settings, such as one of several servers: the others are removed.
"""

from collections.abc import Collection, Iterator
from typing import Any

from hookgate.translator.fields import (
    EditError,
    JsonObject,
    camel,
    read,
    read_list,
    read_object,
    same,
    same_items,
    without,
    write,
)
from hookgate.translator.strictjson import json_identity

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


def function_declarations(body: JsonObject) -> list[Any]:
    """Return all function declarations, in order."""
    return [
        declaration
        for tool in read_list(body, "tools")
        if isinstance(tool, dict)
        for declaration in read_list(tool, "functionDeclarations")
    ]


def declared_names(body: JsonObject) -> list[str]:
    """Return the names of all declared functions, in order."""
    return [name for each in function_declarations(body) if (name := _function_name(each)) is not None]


def _function_name(declaration: Any) -> str | None:
    name = declaration.get("name") if isinstance(declaration, dict) else None
    return name if isinstance(name, str) else None


def hosted_kinds(body: JsonObject) -> list[str]:
    """Return the kinds of all hosted tools in camelCase, such as `googleSearch`, in order."""
    return list(dict.fromkeys(kind for kind, _ in hosted_tools(body)))


def hosted_tools(body: JsonObject) -> Iterator[tuple[str, Any]]:
    """Yield the kind of each hosted tool in camelCase with its settings. Each item of a list is a tool."""
    for tool in read_list(body, "tools"):
        for key, value in tool.items() if isinstance(tool, dict) else ():
            if (kind := camel(key)) != _FUNCTIONS:
                yield from ((kind, each) for each in _items(value))


def _items(value: Any) -> list[Any]:
    """Return the tools in the value of a field: servers are in a list, which may be empty."""
    return value if isinstance(value, list) and value else [value]


_FUNCTIONS = "functionDeclarations"


def declared_descriptions(body: JsonObject) -> dict[str, str]:
    """Return the descriptions of declared functions by name; an empty one for a function that has none."""
    return {
        name: description if isinstance(description := each.get("description"), str) else ""
        for each in function_declarations(body)
        if (name := _function_name(each)) is not None
    }


class DeclaredNames:
    """The names of declared functions. Some agents find a function whose name is called in another case."""

    def __init__(self, names: Collection[str] = ()) -> None:
        self._names = frozenset(names)
        self._in_any_case = {name.casefold(): name for name in sorted(names)}

    def include(self, name: str) -> bool:
        """Return whether a name is declared, perhaps in another case."""
        return self.meant_by(name) in self._names

    def meant_by(self, name: str) -> str:
        """Return the declared name that differs from `name` in case only; `name` if there is none.

        Of several, it is the one in small letters.
        """
        return name if name in self._names else self._in_any_case.get(name.casefold(), name)


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
    """Return the body with a hook's tool selection applied, or `body` itself if nothing changes.

    It concerns functions only: hosted tools stay.
    """
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
    offered = [*allowed, *hosted_kinds(body)]
    return apply_tools(_with_calling_config(body, mode, None) if shown else body, offered)


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
    """Keep only the functions and hosted tools that `tools` names, or return `body` itself if these are all.

    `tools` contains names, tool objects or declarations. A name that a declared function has, in any
    spelling, is that of the function alone. Tools of which nothing is left are removed, and names that no
    longer exist are removed from the calling configuration.
    """
    selected = read_tools(tools)
    names = frozenset(each for each in selected if isinstance(each, str))
    kinds = set(map(camel, names)).difference(map(camel, declared_names(body)))
    settings = {json_identity([kind, value]) for each in selected for kind, value in _settings_in(each)}
    offered = read_list(body, "tools")
    kept = [_prune(tool, names, kinds, settings) for tool in offered]
    if same_items(kept, offered):
        return body
    left = [tool for tool in kept if tool]
    body = write(body, "tools", left) if left else without(body, "tools")
    return _with_valid_names(body, declared_names(body))


def _settings_in(selected: str | JsonObject) -> Iterator[tuple[str, Any]]:
    return hosted_tools({"tools": [selected]}) if isinstance(selected, dict) else iter(())


def keep_selected_tools(body: JsonObject, selection: Any) -> JsonObject:
    """Remove the hosted tools that a selection with names does not name; with the mode NONE, all of them.

    `selection` is a `toolConfig` in any spelling. Raises EditError if it is invalid.
    """
    selected = read_tool_config(selection)
    names = [] if selected.get("mode") == "NONE" else selected.get("allowedFunctionNames")
    return body if names is None else apply_tools(body, [*declared_names(body), *names])


def read_tools(tools: Any) -> list[str | JsonObject]:
    """Return the names in a hook's list of names, tool objects or declarations, and hosted tools.

    The names of a tool object are those of its functions and of hosted tools without settings. One with
    settings is returned as a tool of its own, `{"mcpServers": {"name": …}}`. Raises EditError.
    """
    if not isinstance(tools, list):
        raise EditError("tools", "a list of names or tools", tools)
    selected: list[str | JsonObject] = []
    for index, tool in enumerate(tools):
        if isinstance(tool, str):
            selected.append(tool)
        elif not isinstance(tool, dict):
            raise EditError(f"tools[{index}]", "a name or a tool object", tool)
        elif isinstance(tool.get("name"), str):
            selected.append(tool["name"])
        else:
            selected += declared_names({"tools": [tool]})
            hosted = hosted_tools({"tools": [tool]})
            selected += [kind if value in ({}, None) else {kind: value} for kind, value in hosted]
    return selected


def _prune(tool: Any, functions: Collection[str], kinds: Collection[str], settings: Collection[bytes]) -> Any:
    """Return a tool with these functions and hosted tools only, or the same object if it has no others."""
    if not isinstance(tool, dict):
        return None
    new: JsonObject = {}
    for key, value in tool.items():
        if (kind := camel(key)) == _FUNCTIONS:
            given = read_list(tool, _FUNCTIONS)
            left = [each for each in given if _function_name(each) in functions]
            if left:
                new[key] = value if len(left) == len(given) else left
        elif kind in kinds:
            new[key] = value
        elif left := [each for each in _items(value) if json_identity([kind, each]) in settings]:
            new[key] = value if len(left) == len(_items(value)) else left
    unchanged = len(new) == len(tool) and all(new[key] is tool[key] for key in new)
    return tool if unchanged else new


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
