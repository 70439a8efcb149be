"""The laws of editing a request, for any body: what no hook changed stays unchanged."""

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.bodies.generate_content import NUMBERS, distinct_chats, distinct_requests, requests, snake
from support.translation.inspect import (
    Json,
    all_parts,
    between_pairs,
    contents_of,
    exact,
    hidden_parts,
    parts_of,
    system_of,
    text_of,
    with_each_text,
    without_words,
)
from support.translation.lens import MODEL, drawn_redactor, edited_request, messages_of, through_javascript

from hookgate.translator import BodyError, apply_request, check_request, show_request


def some_of(view: Json) -> st.SearchStrategy[Json]:
    return st.sets(st.sampled_from(sorted(view))).map(lambda keys: {key: view[key] for key in keys})


# ---- law 1: a view given back changes nothing


@given(requests(), st.data())
def test_an_echo_of_the_view_or_of_any_of_its_keys_returns_the_same_body(body: Json, data: Any) -> None:
    view = show_request(MODEL, body)
    for echo in (view, through_javascript(view), data.draw(some_of(view)), {}):
        model, after = apply_request(MODEL, body, echo)
        assert model == MODEL
        assert after is body


@given(requests())
def test_an_echo_with_typed_text_parts_for_content_returns_the_same_body(body: Json) -> None:
    typed = [{**m, "content": [{"type": "text", "text": m["content"]}]} for m in messages_of(body)]
    assert edited_request(body, {"messages": typed}) is body


@given(requests())
def test_an_echo_of_the_raw_keys_returns_the_same_body(body: Json) -> None:
    raw = {"contents": contents_of(body) if isinstance(body["contents"], list) else body["contents"]}
    if system_of(body):
        raw["systemInstruction"] = system_of(body)
    config = body.get("generationConfig") or body.get("generation_config")
    assert edited_request(body, raw if config is None else {**raw, "generationConfig": config}) is body


# ---- law 2: an edited text changes that text alone


@given(distinct_requests, st.data())
def test_rewriting_one_message_changes_no_other_text_and_nothing_but_text(body: Json, data: Any) -> None:
    messages = messages_of(body)
    assume(messages)
    at = data.draw(st.integers(0, len(messages) - 1))
    old, new = messages[at], data.draw(st.sampled_from(["Rewritten.", "Quite\nanother text ✓"]))
    messages[at] = {**old, "content": new}

    after = edited_request(body, {"messages": messages})

    assert without_words(after) == without_words(body)
    assert messages_of(after) == messages
    for before, now in zip(contents_of(body), contents_of(after), strict=True):
        assert before == now or text_of(before) == old["content"]


@given(distinct_requests, st.data())
def test_replacing_words_changes_exactly_these_words(body: Json, data: Any) -> None:
    redacted = drawn_redactor(data, body)
    messages = [{**m, "content": redacted(m["content"])} for m in messages_of(body)]
    after = edited_request(body, {"messages": messages})
    assert exact(after) == exact(with_each_text(body, redacted))


# ---- law 3: several text parts


@given(distinct_requests, st.data())
def test_an_edit_inside_one_of_several_text_parts_leaves_the_others_alone(body: Json, data: Any) -> None:
    parts = [part for part in all_parts(body) if part.get("text")]
    assume(parts)
    chosen = data.draw(st.sampled_from(parts))["text"]
    new = data.draw(st.sampled_from(["REPLACED", chosen[:-4] + "," + chosen[-4:], "X" + chosen[1:]]))
    messages = [{**m, "content": m["content"].replace(chosen, new)} for m in messages_of(body)]
    after = edited_request(body, {"messages": messages})
    assert exact(after) == exact(with_each_text(body, lambda text: new if text == chosen else text))


# ---- law 4: messages are known by role and text, not by position


@given(distinct_requests, st.data())
def test_a_removed_message_loses_its_text_and_nothing_else(body: Json, data: Any) -> None:
    turns = [m for m in messages_of(body) if m["role"] != "system"]
    kept = [m for m in turns if data.draw(st.booleans())]
    gone = {m["content"] for m in turns if m not in kept}

    after = edited_request(body, {"messages": kept})

    assert exact(hidden_parts(after)) == exact(hidden_parts(body))
    left = [content for content in contents_of(after) if text_of(content)]
    stayed = [c for c in contents_of(body) if text_of(c) and text_of(c) not in gone]
    assert exact(left) == exact(stayed)
    assert_pairs_stay_together(body, after)


@given(distinct_requests, st.data())
def test_an_inserted_message_leaves_all_others_as_they_are(body: Json, data: Any) -> None:
    messages = messages_of(body)
    places = data.draw(st.lists(st.integers(0, len(messages)), min_size=1, max_size=3))
    for number, place in enumerate(sorted(places)):
        role = data.draw(st.sampled_from(["user", "model"]))
        messages.insert(place + number, {"role": role, "content": f"INSERTED {number}"})

    after = edited_request(body, {"messages": messages})

    new = [content for content in contents_of(after) if text_of(content).startswith("INSERTED")]
    assert [text_of(content) for content in new] == [f"INSERTED {n}" for n in range(len(places))]
    assert exact([c for c in contents_of(after) if c not in new]) == exact(contents_of(body))
    assert_pairs_stay_together(body, after)


@given(distinct_requests, st.data())
def test_moved_messages_keep_the_hidden_parts_of_their_turn(body: Json, data: Any) -> None:
    order = data.draw(st.permutations([m for m in messages_of(body) if m["role"] != "system"]))
    after = edited_request(body, {"messages": order})
    assert sorted(map(exact, contents_of(after))) == sorted(map(exact, contents_of(body)))
    assert_pairs_stay_together(body, after)


@given(distinct_chats, st.data())
def test_without_calls_the_next_hook_sees_exactly_the_list_this_one_gave(body: Json, data: Any) -> None:
    edited = data.draw(edited_lists(messages_of(body)))
    assert turns_of(edited_request(body, {"messages": edited})) == edited


@given(requests(), st.data())
def test_after_any_edit_the_next_hook_sees_its_messages_and_no_hidden_part_is_lost(
    body: Json, data: Any
) -> None:
    edited = data.draw(edited_lists(messages_of(body)))
    after = edited_request(body, {"messages": edited})
    assert sorted(map(exact, turns_of(after))) == sorted(map(exact, edited))
    assert sorted(map(exact, hidden_parts(after))) == sorted(map(exact, hidden_parts(body)))
    assert between_pairs(after).keys() == between_pairs(body).keys()
    assert_pairs_stay_together(body, after)


def turns_of(body: Json) -> list[Json]:
    return [message for message in messages_of(body) if message["role"] != "system"]


@st.composite
def edited_lists(draw: st.DrawFn, shown: list[Json]) -> list[Json]:
    """Whatever a hook may make of its messages: some kept, some rewritten, some new, in any order."""
    turns = [message for message in shown if message["role"] != "system"]
    new = [{"role": role, "content": text} for role in ("user", "model") for text in ("new", "hi")]
    rewritten = [{**m, "content": m["content"].replace("before", "rewritten")} for m in turns]
    return draw(st.lists(st.sampled_from(turns + rewritten + new), max_size=8))


def assert_pairs_stay_together(before: Json, after: Json) -> None:
    """Between a call and its response stands nothing that did not stand there before."""
    stood = between_pairs(before)
    for call, contents in between_pairs(after).items():
        assert [exact(hidden_parts({"contents": [c]})) for c in contents if hidden(c)] == [
            exact(hidden_parts({"contents": [c]})) for c in stood[call] if hidden(c)
        ]
        assert len(contents) <= len(stood[call])


def hidden(content: Json) -> bool:
    return any("text" not in part for part in parts_of(content))


# ---- law 5: the system instruction


@given(distinct_requests, st.text(min_size=1, max_size=20))
def test_a_system_message_is_the_system_instruction_and_never_a_turn(body: Json, text: str) -> None:
    turns = [m for m in messages_of(body) if m["role"] != "system"]
    after = edited_request(body, {"messages": [{"role": "system", "content": text}, *turns]})
    assert messages_of(after) == [{"role": "system", "content": text}, *turns]
    assert exact(after["contents"]) == exact(body["contents"])
    assert [p for p in parts_of(system_of(after)) if "text" not in p] == [
        p for p in parts_of(system_of(body)) if "text" not in p
    ]


@given(distinct_requests, st.sampled_from(["", "new instruction"]))
def test_an_edit_of_the_system_instruction_touches_no_other_field(body: Json, text: str) -> None:
    after = edited_request(body, {"messages": [{"role": "system", "content": text}, *turns_of(body)]})
    names = ("systemInstruction", "system_instruction")
    assert exact(rest(after, *names)) == exact(rest(body, *names))


@given(distinct_requests)
def test_a_list_without_a_system_message_leaves_the_instruction_alone(body: Json) -> None:
    assert edited_request(body, {"messages": turns_of(body)}) is body


def rest(body: Json, *names: str) -> Json:
    return {key: value for key, value in body.items() if key not in names}


# ---- law 6: config


CONFIG_EDITS = st.dictionaries(
    st.sampled_from(["temperature", "topP", "maxOutputTokens", "seed", "max_output_tokens", "stopSequences"]),
    st.sampled_from([*NUMBERS, None]),
    max_size=3,
).filter(lambda edit: not {"maxOutputTokens", "max_output_tokens"} <= edit.keys())


@given(requests(), CONFIG_EDITS)
def test_config_sets_the_named_keys_and_null_removes_one(body: Json, edit: Json) -> None:
    after = edited_request(body, {"config": edit})

    before, now = config_of(body), config_of(after)
    named = {key.replace("max_output_tokens", "maxOutputTokens"): value for key, value in edit.items()}
    shown = show_request(MODEL, after)["config"]
    for key, value in named.items():
        assert shown.get(key) == value
    untouched = {k: v for k, v in before.items() if camel(k) not in named}
    assert exact({k: v for k, v in now.items() if camel(k) not in named}) == exact(untouched)
    names = ("generationConfig", "generation_config")
    assert exact(rest(after, *names)) == exact(rest(body, *names))


@given(requests())
def test_numbers_that_javascript_prints_otherwise_stay_as_the_client_wrote_them(body: Json) -> None:
    view = through_javascript(show_request(MODEL, body))
    view["config"]["presencePenalty"] = 1
    after = edited_request(body, view)
    now = config_of(after)
    assert {now.pop("presencePenalty", None), now.pop("presence_penalty", None)} == {1, None}
    assert exact(now) == exact(config_of(body))


def config_of(body: Json) -> Json:
    config: Json = body.get("generationConfig") or body.get("generation_config") or {}
    return config


def camel(key: str) -> str:
    head, *tail = key.split("_")
    return head + "".join(map(str.title, tail))


@given(requests(), st.sampled_from(["gemini-2.5-pro", "models/gemini-2.5-pro"]))
def test_the_model_is_replaced_with_or_without_its_prefix(body: Json, model: str) -> None:
    assert apply_request(MODEL, body, {"model": model}) == ("gemini-2.5-pro", body)


@pytest.mark.parametrize("key", ["unknown", "futureField", "tools"])
def test_unknown_and_null_keys_of_an_edit_ask_for_nothing(key: str) -> None:
    body: Json = {"contents": [{"parts": [{"text": "hi"}]}]}
    assert edited_request(body, {key: 1, "messages": None, "config": None, "toolConfig": None}) is body


# ---- law 9: what is accepted is read in one way


@given(requests())
def test_a_body_that_spells_each_field_once_is_accepted(body: Json) -> None:
    assert check_request(body) is body


@given(requests())
def test_a_field_given_in_a_second_spelling_is_refused(body: Json) -> None:
    for key in [key for key in body if camel(key) != snake(key)]:
        twice = {**body, camel(key): body[key], snake(key): body[key]}
        with pytest.raises(BodyError, match="given twice"):
            check_request(twice)
