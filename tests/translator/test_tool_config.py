"""Law 7: which functions the model may call, in the form that the API takes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.bodies.generate_content import NAMES, requests, snake
from support.translation.inspect import Json, exact, listed
from support.translation.lens import MODEL

from hookgate.translator import (
    EditError,
    apply_request,
    apply_tool_config,
    apply_tools,
    declared_names,
    hosted_kinds,
    keep_selected_tools,
    read_tool_config,
    read_tools,
    show_tool_config,
    tools,
)
from hookgate.translator.fields import camel

MODES = st.sampled_from(["AUTO", "ANY", "NONE", "VALIDATED"])
NAME_LISTS = st.lists(st.sampled_from([*NAMES, "not_declared"]), max_size=4, unique=True)
SPELLINGS = st.sampled_from(["flat", "nested", "snake"])


def field(obj: Json, name: str) -> Any:
    return obj.get(name, obj.get(snake(name)))


def tool_config(body: Json) -> Json:
    return field(body, "toolConfig") or {}


def calling(body: Json) -> Json:
    return field(tool_config(body), "functionCallingConfig") or {}


def offered(body: Json) -> set[str]:
    """What the API lets the model call, by its own rules."""
    names = field(calling(body), "allowedFunctionNames")
    mode = field(calling(body), "mode") or "AUTO"
    if mode == "NONE":
        return set()
    return set(names) if names else set(declared_names(body))


def written(selection: Json, spelling: str) -> Json:
    if spelling == "flat":
        return selection
    if spelling == "nested":
        return {"functionCallingConfig": selection}
    return {"function_calling_config": {snake(key): value for key, value in selection.items()}}


def without(body: Json, *names: str) -> str:
    return exact({k: v for k, v in body.items() if k not in names and k not in map(snake, names)})


def selected(body: Json, patch: Json) -> Json:
    before = exact([body, patch])
    after = apply_tool_config(body, patch)
    assert exact([body, patch]) == before, "an argument was changed in place"
    return after


# ---- any body


@given(requests(), MODES, NAME_LISTS, SPELLINGS)
def test_a_selection_offers_exactly_the_declared_ones_of_its_names(
    body: Json, mode: str, names: list[str], spelling: str
) -> None:
    after = selected(body, written({"mode": mode, "allowedFunctionNames": names}, spelling))
    if declared_names(body) and after is not body:  # a selection that is the client's own changes nothing
        wanted = set() if mode == "NONE" else set(names) & set(declared_names(body))
        assert offered(after) == wanted


@given(requests(), MODES, NAME_LISTS)
def test_a_selection_changes_only_the_calling_configuration_and_pruned_declarations(
    body: Json, mode: str, names: list[str]
) -> None:
    after = selected(body, {"mode": mode, "allowedFunctionNames": names})
    assert without(after, "toolConfig", "tools") == without(body, "toolConfig", "tools")
    retrieval = field(tool_config(body), "retrievalConfig")
    assert exact(field(tool_config(after), "retrievalConfig")) == exact(retrieval)
    if mode != "AUTO":
        assert declared_names(after) == declared_names(body)
    assert ("tools" in after) <= ("tools" in body)
    assert hosted_kinds(after) == hosted_kinds(body)


@given(requests(), MODES, NAME_LISTS)
def test_what_a_selection_made_is_never_refused_by_the_api(body: Json, mode: str, names: list[str]) -> None:
    after = selected(body, {"mode": mode, "allowedFunctionNames": names})
    if after is not body:
        allowed = field(calling(after), "allowedFunctionNames")
        if allowed is not None:
            assert allowed
            assert calling(after)["mode"] in ("ANY", "VALIDATED")
            assert set(allowed) <= set(declared_names(after))


@given(requests(), MODES, NAME_LISTS)
def test_a_selection_given_twice_changes_nothing_the_second_time(
    body: Json, mode: str, names: list[str]
) -> None:
    once = selected(body, {"mode": mode, "allowedFunctionNames": names})
    assert exact(selected(once, {"mode": mode, "allowedFunctionNames": names})) == exact(once)


@given(requests(), NAME_LISTS)
def test_tools_keeps_the_named_declarations_and_nothing_else(body: Json, names: list[str]) -> None:
    before = exact(body)
    after = apply_tools(body, names)
    assert exact(body) == before
    assert declared_names(after) == [name for name in declared_names(body) if name in names]
    assert not hosted_kinds(after)
    assert without(after, "toolConfig", "tools") == without(body, "toolConfig", "tools")
    if declared_names(after) == declared_names(body) and not hosted_kinds(body):
        assert after is body


@given(requests(), st.sampled_from([camel, snake]))
def test_tools_with_all_names_and_kinds_changes_nothing(body: Json, spelled: Any) -> None:
    kinds = hosted_kinds(body)
    assert apply_tools(body, [*declared_names(body), *map(spelled, kinds)]) is body
    assert apply_tools(body, listed(body.get("tools"))) is body


# ---- by example


@pytest.mark.parametrize("number", [10, 1_000])
def test_a_selection_makes_one_set_of_names_however_many_tools_there_are(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets: list[int] = []

    def counted(names: Any = ()) -> frozenset[Any]:
        sets.append(1)
        return frozenset(names)

    monkeypatch.setattr(tools, "frozenset", counted, raising=False)
    offered = [{"functionDeclarations": [{"name": f"f{n}"}]} for n in range(number)]
    apply_tools({"tools": offered}, [f"f{n}" for n in range(0, number, 2)])
    assert len(sets) < 5


def body_with(mode: str | None = None, names: list[str] | None = None, **config: Any) -> Json:
    given = {"mode": mode, "allowedFunctionNames": names}
    calling_config = {key: value for key, value in given.items() if value is not None}
    if calling_config:
        config["functionCallingConfig"] = calling_config
    functions = [{"name": "read"}, {"name": "write"}]
    body: Json = {"tools": [{"functionDeclarations": functions}, {"googleSearch": {}}]}
    return {**body, "toolConfig": config} if config else body


def test_a_selection_is_shown_flat_and_nested() -> None:
    flat = {"mode": "ANY", "allowedFunctionNames": ["read"]}
    assert show_tool_config(body_with("ANY", ["read"])) == {**flat, "functionCallingConfig": flat}
    assert show_tool_config(body_with()) is None
    assert show_tool_config(body_with(retrievalConfig={})) is None


def functions_only(body: Json) -> Json:
    return {**body, "tools": body["tools"][:1]}


def test_names_with_auto_prune_the_declarations_and_write_no_names() -> None:
    after = selected(body_with(), {"mode": "AUTO", "allowedFunctionNames": ["read"]})
    assert after == {"tools": [{"functionDeclarations": [{"name": "read"}]}, {"googleSearch": {}}]}


def test_names_with_any_are_written_beside_the_mode() -> None:
    patch = {"mode": "ANY", "allowedFunctionNames": ["read", "not_declared"]}
    after = selected(body_with(retrievalConfig={"a": 1}), patch)
    assert after == body_with("ANY", ["read"], retrievalConfig={"a": 1})


def test_none_clears_the_names_and_keeps_the_declarations() -> None:
    assert selected(body_with("ANY", ["read"]), {"mode": "NONE"}) == body_with("NONE")


def test_a_selection_without_names_keeps_the_tools_that_the_api_runs() -> None:
    body = body_with()
    assert keep_selected_tools(body, {"mode": "ANY"}) is body
    assert keep_selected_tools(body, {"allowedFunctionNames": ["google_search"]}) is body
    assert keep_selected_tools(body, {"allowedFunctionNames": ["read"]}) == functions_only(body)
    assert keep_selected_tools(body, {"mode": "NONE"}) == functions_only(body)


@pytest.mark.parametrize("declared", ["mcpServers", "mcp_servers"])
def test_a_function_with_the_name_of_a_kind_lets_no_tool_of_this_kind_through(declared: str) -> None:
    functions = {"functionDeclarations": [{"name": declared}]}
    body: Json = {"tools": [{**functions, "mcpServers": [{"name": "a"}]}]}
    assert apply_tools(body, [declared]) == {"tools": [functions]}
    assert keep_selected_tools(body, {"allowedFunctionNames": [declared]}) == {"tools": [functions]}


@pytest.mark.parametrize(
    "tool",
    [
        {"mcpServers": [{"name": "read", "url": "https://evil.example"}]},
        {"mcp_servers": []},
        {"unknownKind": {"name": "read"}},
        {"read ": {}},
        {"functionDeclarations": "read"},
        {"functionDeclarations": [{"name": ["read"]}, "read", {}]},
    ],
)
def test_what_is_not_named_is_removed_whatever_it_is(tool: Json) -> None:
    body: Json = {"tools": [{"functionDeclarations": [{"name": "read"}], "codeExecution": {}}, tool]}
    want = {"tools": [{"functionDeclarations": [{"name": "read"}]}]}
    assert apply_tools(body, ["read"]) == want
    assert apply_tools({"tools": tool}, ["read"]) == {}


def test_a_hook_that_asks_for_auto_alone_lifts_the_restriction_to_names() -> None:
    assert selected(body_with("ANY", ["read"]), {"mode": "AUTO"}) == body_with("AUTO")


@pytest.mark.parametrize("mode", [{}, {"mode": "NONE"}])
def test_names_do_not_lift_a_none_that_stands(mode: Json) -> None:
    assert selected(body_with("NONE"), {**mode, "allowedFunctionNames": ["read"]}) == body_with("NONE")


def test_an_empty_selection_means_none_because_the_api_reads_it_as_all() -> None:
    assert selected(body_with(), {"mode": "ANY", "allowedFunctionNames": []}) == body_with("NONE")


def test_a_request_without_functions_gets_no_selection_and_no_empty_tools() -> None:
    body: Json = {"contents": []}
    assert selected(body, {"mode": "ANY", "allowedFunctionNames": ["read"]}) is body


@pytest.mark.parametrize("changed", ["flat", "nested"])
def test_if_two_spellings_disagree_the_one_that_the_hook_changed_counts(changed: str) -> None:
    body = body_with("ANY", ["read"])
    change = {"mode": "NONE"} if changed == "flat" else {"functionCallingConfig": {"mode": "NONE"}}
    edit = {**(show_tool_config(body) or {}), **change}
    assert selected(body, edit) == body_with("NONE")
    assert apply_request(MODEL, body, {"toolConfig": edit})[1] == body_with("NONE")


def test_names_that_were_pruned_leave_the_calling_configuration_too() -> None:
    assert apply_tools(body_with("ANY", ["read", "write"]), ["read"])["toolConfig"] == {
        "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["read"]}
    }
    assert apply_tools(body_with("ANY", ["write"]), ["read"])["toolConfig"] == {
        "functionCallingConfig": {"mode": "NONE"}
    }
    assert apply_tools(body_with("ANY"), ["google_search"]) == {"tools": [{"googleSearch": {}}]}


def test_an_unspecified_mode_is_auto() -> None:
    assert read_tool_config({"mode": "MODE_UNSPECIFIED"}) == {"mode": "AUTO"}


def test_tools_are_named_by_names_declarations_or_whole_tools() -> None:
    tool = {"function_declarations": [{"name": "c"}, {"name": "d"}]}
    assert read_tools(["a", {"name": "b"}, tool, {"google_search": {}}]) == [
        "a",
        "b",
        "c",
        "d",
        "googleSearch",
    ]


@pytest.mark.parametrize(("tools", "path"), [("read", "tools"), (["read", 5], "tools[1]")])
def test_tools_of_another_kind_are_refused_by_place(tools: Any, path: str) -> None:
    with pytest.raises(EditError) as raised:
        apply_tools(body_with(), tools)
    assert raised.value.path == path


@pytest.mark.parametrize("nested", [False, True])
def test_names_of_the_request_in_a_selection_with_another_mode_still_select(nested: bool) -> None:
    """They would otherwise be dropped, since AUTO allows no names, and all functions be offered."""
    config = {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["search"]}}
    body = {
        "tools": [{"functionDeclarations": [{"name": "search"}, {"name": "shell"}]}],
        "toolConfig": config,
    }
    patch: Json = {"mode": "AUTO", "allowedFunctionNames": ["search"]}
    assert offered(selected(body, {"functionCallingConfig": patch} if nested else patch)) == {"search"}


def test_a_tool_with_settings_in_a_selection_stands_for_itself() -> None:
    good, evil = {"name": "a", "url": "good", "topK": 1}, {"name": "a", "url": "evil", "topK": 1}
    body: Json = {"tools": [{"mcp_servers": [evil, good]}, {"retrieval": evil}, {"mcpServers": evil}]}
    echoed = {"topK": 1.0, "url": "good", "name": "a"}  # as a program could return it
    for selected in ({"mcpServers": [echoed]}, {"mcp_servers": echoed}):
        assert apply_tools(body, [selected]) == {"tools": [{"mcp_servers": [good]}]}
    assert apply_tools(body, [{"mcpServers": []}]) == {}
    assert apply_tools(body, [{"mcpServers": {}}]) == {"tools": [body["tools"][0], body["tools"][2]]}
    empty: Json = {"tools": [{"mcpServers": []}]}
    assert apply_tools(empty, [{"mcpServers": []}]) is empty


@given(st.lists(st.dictionaries(st.sampled_from(["url", "name"]), st.sampled_from(["a", "b"])), max_size=5))
def test_of_the_servers_of_a_request_exactly_the_selected_ones_stay(servers: list[Json]) -> None:
    body: Json = {"tools": [{"mcpServers": servers}]}
    selected = [server for server in servers if server.get("url") == "a"]
    left = listed(apply_tools(body, [{"mcpServers": selected}]).get("tools"))
    assert [each for tool in left for each in tool["mcpServers"]] == selected
