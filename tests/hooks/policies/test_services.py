"""The policies model_armor and guardrail: what they send, what they make of answers, and how they fail."""

import json
import logging
import re
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from support.hooks.failing import BUILTIN, is_denied
from support.hooks.guardrails import (
    KEY,
    POLICIES,
    REASON,
    TEMPLATE,
    TOKEN,
    Guardrail,
    Tokens,
    armor_result,
    asking_engine,
    clean_filters,
    deidentified,
    denied_by,
    filter_result,
    guardrail,
    hook_of_policy,
    options_of,
)
from support.hooks.settings import asking

from hookgate.hooks import (
    AfterModel,
    AfterTool,
    BeforeModel,
    BeforeTool,
    Event,
    HookError,
    Outcome,
    SessionContext,
    SettingsError,
)
from hookgate.hooks.events.base import SharedValue
from hookgate.hooks.policies.options import read_options
from hookgate.hooks.policies.services.model_armor import ModelArmorOptions, model_armor_policy
from hookgate.hooks.policies.services.payloads import make_payloads, spread_edits
from hookgate.hooks.policies.services.texts import Text
from hookgate.hooks.policy_environment import PolicyEnvironment

Json = dict[str, Any]

ALL = pytest.mark.parametrize("policy", POLICIES)
ANNA = SessionContext("s-1", key="anna", team="search")
DENIED = {"model_armor": "Model Armor denied this text (rai).", "guardrail": REASON}


def answer(*parts: Json, **more: Any) -> AfterModel:
    return AfterModel(
        SharedValue({}), {"candidates": [{"content": {"role": "model", "parts": list(parts)}}], **more}, "m"
    )


async def judge_event(
    policy: str, stand_in: Guardrail, folder: Path, event: Event, hook: Json | None = None, **options: Any
) -> Outcome[Event]:
    configured = hook_of_policy(policy, stand_in.url, hook, **options)
    async with asking_engine(folder, {event.name: configured}, stand_in.url) as engine:
        return await engine.fire(event, ANNA)


# ---- decisions


@ALL
async def test_a_request_and_an_answer_that_the_service_denies_are_denied(
    policy: str, tmp_path: Path
) -> None:
    async with guardrail(policy) as stand_in:
        for event in (asking("of a rocket"), answer({"text": "a rocket"})):
            outcome = await judge_event(policy, stand_in, tmp_path, event)
            assert outcome.verdict.denied
            assert outcome.verdict.reason == DENIED[policy]
        for event in (asking("of a ship"), answer({"text": "a ship"})):
            outcome = await judge_event(policy, stand_in, tmp_path, event)
            assert not outcome.verdict.denied
            assert outcome.event is event


@ALL
async def test_what_the_service_changes_is_denied_unless_edits_are_allowed(
    policy: str, tmp_path: Path
) -> None:
    async with guardrail(policy) as stand_in:
        event = asking("I am anna@example.com.")
        assert (await judge_event(policy, stand_in, tmp_path, event)).verdict.denied
        outcome = await judge_event(policy, stand_in, tmp_path, event, edit=True)
        assert not outcome.verdict.denied
        assert isinstance(outcome.event, BeforeModel)
        assert "I am [EMAIL_ADDRESS]." in json.dumps(outcome.event.body)
        assert "anna@" not in json.dumps(outcome.event.body)


@ALL
async def test_each_text_keeps_its_place_when_several_are_edited(policy: str, tmp_path: Path) -> None:
    call = {"functionCall": {"name": "send", "args": {"to": ["b@example.com"], "about": "ships"}}}
    parts = [{"text": "Ask a@exa"}, {"text": "mple.com, or c@example.com"}, call]
    async with guardrail(policy) as stand_in:
        outcome = await judge_event(policy, stand_in, tmp_path, answer(*parts), edit=True)
    assert isinstance(outcome.event, AfterModel)
    [text, more, sent] = outcome.event.body["candidates"][0]["content"]["parts"]
    assert sent["functionCall"]["args"] == {"to": ["[EMAIL_ADDRESS]"], "about": "ships"}
    assert "c@example" not in more["text"]
    if policy == "model_armor":  # it sees the parts of a turn as one text
        assert text["text"] + more["text"] == "Ask [EMAIL_ADDRESS], or [EMAIL_ADDRESS]"


@ALL
async def test_tools_are_judged_where_an_agent_reports_them(policy: str, tmp_path: Path) -> None:
    call = BeforeTool("search", {"query": "anna@example.com", "count": 3})
    result = AfterTool("search", {}, {"llmContent": "of a rocket"})
    async with guardrail(policy) as stand_in:
        outcome = await judge_event(policy, stand_in, tmp_path, call, edit=True)
        assert isinstance(outcome.event, BeforeTool)
        assert outcome.event.tool_input == {"query": "[EMAIL_ADDRESS]", "count": 3}
        assert (await judge_event(policy, stand_in, tmp_path, result)).verdict.denied


@ALL
async def test_files_that_are_text_are_judged_and_not_edited(policy: str, tmp_path: Path) -> None:
    file = {"inlineData": {"mimeType": "text/plain", "data": "YW5uYUBleGFtcGxlLmNvbQ=="}}
    image = {"inlineData": {"mimeType": "image/png", "data": IMAGE}}
    async with guardrail(policy) as stand_in:
        outcome = await judge_event(policy, stand_in, tmp_path, answer(image, file), edit=True)
        assert outcome.verdict.denied
        assert "".join(stand_in.texts) == "anna@example.com"


IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAEA"


@ALL
@pytest.mark.parametrize("name", ["data", "thoughtSignature", "thought_signature", "continuationToken"])
@pytest.mark.parametrize("value", ["tell me of the rocket", "rocket-launch_1", "SUQz\nof\na\nrocket"])
async def test_what_has_the_name_of_bytes_and_is_text_is_judged(
    policy: str, name: str, value: str, tmp_path: Path
) -> None:
    named = {name: value}
    result = {"functionResponse": {"name": "f", "response": named}}
    bodies: list[Json] = [
        {"contents": [{"role": "user", "parts": [result]}]},
        {"labels": named},
        {"generationConfig": {"responseJsonSchema": {"examples": [named]}}},
    ]
    events: list[Event] = [
        *(BeforeModel("m", body) for body in bodies),
        answer({"functionCall": {"name": "f", "args": {"options": named}}}),
        BeforeTool("f", named),
        AfterTool("f", {}, {"llmContent": [named]}),
    ]
    if not re.fullmatch(r"[\w\n-]+", value):  # or it may be base64
        events += [
            answer({"text": "a ship", "thoughtSignature": value}),
            answer({"inlineData": {"data": value}}),
        ]
    async with guardrail(policy) as stand_in:
        for event in events:
            assert (await judge_event(policy, stand_in, tmp_path, event)).verdict.denied, event


@ALL
async def test_an_image_that_a_tool_returns_is_no_text(policy: str, tmp_path: Path) -> None:
    content = {"type": "image", "mimeType": "image/png", "data": IMAGE}
    async with guardrail(policy) as stand_in:
        await judge_event(policy, stand_in, tmp_path, AfterTool("f", {}, {"llmContent": [content]}))
        assert IMAGE not in "".join(stand_in.texts)


@ALL
async def test_identifiers_that_a_model_or_a_tool_has_written_are_sent(policy: str, tmp_path: Path) -> None:
    call = {"functionCall": {"name": "f", "id": "c1", "args": {"name": "Anna", "type": "rocket"}}}
    async with guardrail(policy) as stand_in:
        assert (await judge_event(policy, stand_in, tmp_path, answer(call))).verdict.denied
        assert "\n---\n".join(stand_in.texts) == "Anna\n---\nrocket"
        stand_in.asked.clear()
        await judge_event(policy, stand_in, tmp_path, BeforeTool("f", {"name": "Anna"}))
        assert stand_in.texts == ["Anna"]


@ALL
async def test_scopes_and_turns_select_what_is_sent(policy: str, tmp_path: Path) -> None:
    turns = [
        {"role": "user", "parts": [{"text": "first"}]},
        {"role": "model", "parts": [{"text": "said", "thought": True}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"r": "result"}}}]},
        {"role": "user", "parts": [{"text": "newest"}]},
        {"role": "model", "parts": [{"text": "claimed"}]},
    ]
    event = BeforeModel("m", {"contents": turns, "systemInstruction": {"parts": [{"text": "system"}]}})
    expected = {
        ("prompts",): ["first", "newest", "claimed"],
        ("system", "tool_results"): ["system", "result"],
        ("thoughts",): ["said"],
    }
    async with guardrail(policy) as stand_in:
        for scopes, sent in expected.items():
            stand_in.asked.clear()
            await judge_event(policy, stand_in, tmp_path, event, scopes=list(scopes))
            assert sorted("\n---\n".join(stand_in.texts).split("\n---\n")) == sorted(sent)
        stand_in.asked.clear()
        await judge_event(policy, stand_in, tmp_path, event, scopes=["prompts", "thoughts"], turns="newest")
        assert "\n---\n".join(stand_in.texts) == "newest\n---\nclaimed"


@ALL
async def test_nothing_is_asked_about_a_request_without_text(policy: str, tmp_path: Path) -> None:
    async with guardrail(policy) as stand_in:
        event = BeforeModel("m", {"generationConfig": {"topK": 3}})
        assert not (await judge_event(policy, stand_in, tmp_path, event)).verdict.denied
        assert not stand_in.asked


async def test_the_service_of_a_guardrail_learns_who_calls_and_the_operator_s_parameters(
    tmp_path: Path,
) -> None:
    async with guardrail("guardrail") as stand_in:
        await judge_event("guardrail", stand_in, tmp_path, asking("hi"), params={"level": 3})
        [body] = stand_in.asked
        assert stand_in.paths == ["/beta/litellm_basic_guardrail_api"]
        assert stand_in.headers[0]["x-api-key"] == KEY
        assert body["input_type"] == "request"
        assert body["request_data"] == {"user_api_key_alias": "anna", "user_api_key_team_alias": "search"}
        assert body["additional_provider_specific_params"] == {"level": 3}
        assert body["litellm_trace_id"] == "s-1"


async def test_model_armor_is_asked_by_direction_with_the_gateway_s_token(tmp_path: Path) -> None:
    async with guardrail("model_armor") as stand_in:
        for event in (asking("hi"), answer({"text": "ho"})):
            await judge_event("model_armor", stand_in, tmp_path, event)
        assert stand_in.paths == [
            f"/v1/{TEMPLATE}:sanitizeUserPrompt",
            f"/v1/{TEMPLATE}:sanitizeModelResponse",
        ]
        assert [list(body) for body in stand_in.asked] == [["userPromptData"], ["modelResponseData"]]
        assert {headers["authorization"] for headers in stand_in.headers} == {f"Bearer {TOKEN}"}


# ---- sizes


@ALL
async def test_a_call_with_more_text_than_the_limit_is_denied_unasked(policy: str, tmp_path: Path) -> None:
    async with guardrail(policy) as stand_in:
        outcome = await judge_event(policy, stand_in, tmp_path, asking("x" * 3000), limit=2000)
        assert outcome.verdict.denied
        assert "at most 2000" in outcome.verdict.reason
        assert not stand_in.asked


async def test_model_armor_judges_a_long_text_in_parts_that_overlap(tmp_path: Path) -> None:
    filler = "word " * 400
    for before in (filler[:-2], filler[: 1000 - 7], filler[: 1000 - 3]):
        async with guardrail("model_armor") as stand_in:
            outcome = await judge_event(
                "model_armor", stand_in, tmp_path, asking(f"{before} rocket {filler}"), chunk=1000
            )
            assert outcome.verdict.denied
            assert max(map(len, stand_in.texts)) <= 1000
            assert sum(map(len, stand_in.texts)) <= 2.5 * len(f"{before} rocket {filler}")


@pytest.mark.parametrize("place", [700, 985, 990, 996, 1010, 1200])
async def test_an_edit_of_a_long_text_is_whole_or_the_call_is_denied(place: int, tmp_path: Path) -> None:
    filler = "word " * 600
    text = f"{filler[:place]} anna@example.com {filler}"
    async with guardrail("model_armor") as stand_in:
        outcome = await judge_event("model_armor", stand_in, tmp_path, asking(text), chunk=1000, edit=True)
    if not outcome.verdict.denied:
        assert isinstance(outcome.event, BeforeModel)
        [said] = outcome.event.body["contents"][0]["parts"]
        assert said["text"] == f"{filler[:place]} [EMAIL_ADDRESS] {filler}"


async def test_an_answer_that_is_too_long_is_a_failure(tmp_path: Path) -> None:
    async with guardrail("model_armor") as stand_in:
        stand_in.answer = lambda _: deidentified("x" * 2_000_000)
        outcome = await judge_event("model_armor", stand_in, tmp_path, asking("hi"), {"on_error": "allow"})
        [run] = outcome.runs
        assert "more than 1048576 bytes" in str(run.error)


# ---- failures

UNREADABLE_ANSWERS: dict[str, list[Any]] = {
    "model_armor": [
        {},
        [],
        {"sanitizationResult": None},
        armor_result("NO_MATCH_FOUND", clean_filters(), "PARTIAL"),
        armor_result("NO_MATCH_FOUND", clean_filters(), "FAILURE"),
        armor_result("FILTER_MATCH_STATE_UNSPECIFIED", clean_filters()),
        armor_result("NO_MATCH_FOUND", {"rai": {"raiFilterResult": {"executionState": "EXECUTION_SKIPPED"}}}),
        {"sanitizationResult": {"filterMatchState": "NO_MATCH_FOUND"}},
        armor_result("NO_MATCH_FOUND", {"rai": filter_result("raiFilterResult", "match_found")}),
        armor_result("NO_MATCH_FOUND", {"rai": filter_result("raiFilterResult", ["MATCH_FOUND"])}),
        web.Response(text='{"sanitizationResult": {}, ' + json.dumps(armor_result("NO_MATCH_FOUND", {}))[1:]),
        {
            "sanitizationResult": {
                **armor_result("NO_MATCH_FOUND", {})["sanitizationResult"],
                "filterResults": [],
            }
        },
        web.Response(text="NO_MATCH_FOUND"),
        web.Response(status=500, text="down"),
        web.Response(status=403, text="PERMISSION_DENIED"),
        web.Response(status=204),
    ],
    "guardrail": [
        {},
        [],
        {"action": "none"},
        {"action": "ALLOW"},
        {"action": "GUARDRAIL_INTERVENED"},
        {"action": "GUARDRAIL_INTERVENED", "texts": []},
        {"action": "GUARDRAIL_INTERVENED", "texts": ["a", "b"]},
        {"action": "GUARDRAIL_INTERVENED", "texts": [3]},
        {"action": "NONE", "texts": "hi"},
        {"action": "NONE", "structured_messages": [{"role": "user", "content": "other"}]},
        {"action": "BLOCKED", "blocked_reason": 7},
        web.Response(text='{"action": "BLOCKED", "action": "NONE"}'),
        web.Response(text="NONE"),
        web.Response(status=500, text="down"),
        web.Response(status=204),
    ],
}


@pytest.mark.parametrize("layer", ["policy", "explicit", "user"])
@pytest.mark.parametrize("on_error", [None, "allow", "deny"])
@ALL
async def test_an_answer_that_cannot_be_read_is_a_failure_of_the_table(
    policy: str, on_error: str | None, layer: str, tmp_path: Path
) -> None:
    hook = {"on_error": on_error} if on_error else {}
    async with guardrail(policy) as stand_in:
        configured = hook_of_policy(policy, stand_in.url, hook)
        hooks = {"BeforeModel": configured, "AfterModel": configured}
        async with asking_engine(tmp_path, hooks, stand_in.url, layer=layer) as engine:
            for number, unreadable in enumerate(UNREADABLE_ANSWERS[policy]):
                for event in (asking("hi"), answer({"text": "hi"})):
                    stand_in.answer = lambda _, said=unreadable: (
                        web.Response(status=said.status, body=said.body)
                        if isinstance(said, web.Response)
                        else said
                    )
                    outcome = await engine.fire(event, ANNA)
                    [run] = outcome.runs
                    assert run.error, number
                    assert outcome.verdict.denied == is_denied(BUILTIN, layer, on_error)


@pytest.mark.parametrize("on_error", [None, "allow", "deny"])
@ALL
async def test_a_service_that_is_slow_or_down_is_a_failure_of_the_table(
    policy: str, on_error: str | None, tmp_path: Path
) -> None:
    hook = {"timeout": 50, **({"on_error": on_error} if on_error else {})}
    async with guardrail(policy) as stand_in:
        stand_in.open.clear()
        outcome = await judge_event(policy, stand_in, tmp_path, asking("hi"), hook)
        assert "timed out after 50 ms" in str(outcome.runs[0].error)
        assert outcome.verdict.denied == (on_error != "allow")
    outcome = await judge_event(policy, stand_in, tmp_path, asking("hi"), hook)
    assert "cannot be reached" in str(outcome.runs[0].error)
    assert outcome.verdict.denied == (on_error != "allow")


async def test_a_denial_counts_although_another_part_fails(tmp_path: Path) -> None:
    def say(body: Json) -> Any:
        denied = denied_by("rai", "raiFilterResult")
        return denied if "rocket" in json.dumps(body) else web.Response(status=500)

    async with guardrail("model_armor") as stand_in:
        stand_in.answer = say
        event = asking("word " * 500 + "rocket")
        outcome = await judge_event(
            "model_armor", stand_in, tmp_path, event, {"on_error": "allow"}, chunk=1000
        )
        assert outcome.verdict.denied


async def test_a_credential_without_a_token_is_a_failure(tmp_path: Path) -> None:
    hook = hook_of_policy("model_armor", "http://127.0.0.1:1")
    tokens = Tokens("has no access token")
    async with asking_engine(tmp_path, {"BeforeModel": hook}, "http://127.0.0.1:1", tokens) as engine:
        outcome = await engine.fire(asking("hi"), ANNA)
        assert outcome.verdict.denied
        assert "no access token" in str(outcome.runs[0].error)


# ---- a hostile service


@ALL
async def test_a_service_that_answers_with_its_credential_reveals_nothing(
    policy: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret = {"model_armor": TOKEN, "guardrail": KEY}[policy]
    said = {
        "model_armor": [
            deidentified(secret),
            armor_result("MATCH_FOUND", {secret: {"matchState": "MATCH_FOUND"}}),
        ],
        "guardrail": [
            {"action": "GUARDRAIL_INTERVENED", "texts": [secret]},
            {"action": "BLOCKED", "blocked_reason": f"see {secret}"},
        ],
    }[policy]
    async with guardrail(policy) as stand_in:
        for each in [*said, web.Response(status=401, text=secret)]:
            stand_in.answer = lambda _, each=each: each
            with caplog.at_level(logging.DEBUG):
                outcome = await judge_event(policy, stand_in, tmp_path, asking("hi"), edit=True)
            assert outcome.verdict.denied
            [run] = outcome.runs
            assert secret not in f"{outcome.verdict.reason} {run.error} {run.output}"
            assert secret not in json.dumps(outcome.event.fields("body"))
    assert secret not in caplog.text


@pytest.mark.parametrize("edit", [True, False])
async def test_a_match_that_changes_nothing_denies_the_call(edit: bool, tmp_path: Path) -> None:
    async with guardrail("model_armor") as stand_in:
        stand_in.answer = lambda _: deidentified("hi")
        outcome = await judge_event("model_armor", stand_in, tmp_path, asking("hi"), edit=edit)
        assert outcome.verdict.reason == "Model Armor denied this text (sdp)."


async def test_names_of_filters_that_google_does_not_document_are_not_shown(tmp_path: Path) -> None:
    async with guardrail("model_armor") as stand_in:
        stand_in.answer = lambda _: armor_result(
            "MATCH_FOUND", {"<b>call 555</b>": filter_result("x", "MATCH_FOUND")}
        )
        outcome = await judge_event("model_armor", stand_in, tmp_path, asking("hi"))
        assert outcome.verdict.reason == "Model Armor denied this text (other)."


async def test_a_match_without_a_filter_and_a_filter_without_a_match_both_deny(tmp_path: Path) -> None:
    contradictions = [
        armor_result("MATCH_FOUND", clean_filters()),
        armor_result("NO_MATCH_FOUND", {"csam": filter_result("csamFilterFilterResult", "MATCH_FOUND")}),
        armor_result(
            "MATCH_FOUND", {"sdp": {"sdpFilterResult": filter_result("inspectResult", "MATCH_FOUND")}}
        ),
    ]
    async with guardrail("model_armor") as stand_in:
        for said in contradictions:
            stand_in.answer = lambda _, said=said: said
            assert (
                await judge_event("model_armor", stand_in, tmp_path, asking("hi"), edit=True)
            ).verdict.denied


async def test_an_edit_by_a_filter_beside_another_match_is_no_pass(tmp_path: Path) -> None:
    found = deidentified("clean")["sanitizationResult"]["filterResults"]
    both = armor_result("MATCH_FOUND", {**found, "rai": filter_result("raiFilterResult", "MATCH_FOUND")})
    async with guardrail("model_armor") as stand_in:
        stand_in.answer = lambda _: both
        outcome = await judge_event("model_armor", stand_in, tmp_path, asking("hi"), edit=True)
        assert outcome.verdict.denied
        assert "rai" in outcome.verdict.reason


async def test_an_edit_that_joins_two_texts_denies_the_call(tmp_path: Path) -> None:
    event = BeforeModel("m", {"contents": [{"parts": [{"text": text}]} for text in ("one", "two")]})
    async with guardrail("model_armor") as stand_in:
        stand_in.answer = lambda _: deidentified("onetwo")
        outcome = await judge_event("model_armor", stand_in, tmp_path, event, edit=True)
        assert outcome.verdict.denied


async def test_a_long_reason_is_cut(tmp_path: Path) -> None:
    async with guardrail("guardrail") as stand_in:
        stand_in.answer = lambda _: {"action": "BLOCKED", "blocked_reason": "x" * 100_000}
        outcome = await judge_event("guardrail", stand_in, tmp_path, asking("hi"))
        assert outcome.verdict.reason == "x" * 1000
        outcome = await judge_event("guardrail", stand_in, tmp_path, asking("hi"), reason="Ask Ada.")
        assert outcome.verdict.reason == "Ask Ada."


# ---- options

GOOGLE = "https://modelarmor.europe-west4.rep.googleapis.com"


def test_the_endpoint_of_model_armor_follows_from_the_template_and_must_be_allowed() -> None:
    options = {"template": TEMPLATE, "credential": "cloud"}
    environment = PolicyEnvironment(Path("/"), http_targets=[f"{GOOGLE}/v1/projects/my-project/"])
    assert model_armor_policy(options, environment)
    elsewhere = {**options, "template": TEMPLATE.replace("my-project", "other")}
    with pytest.raises(
        ValueError, match=r"^endpoint: https://modelarmor\.europe-west4\..* is not allowed; add"
    ):
        model_armor_policy(elsewhere, environment)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"template": "strict"}, r"^template: must be a template's name: projects/"),
        ({"template": f"{TEMPLATE}/../x"}, r"^template: must be"),
        ({"credential": "clowd"}, r"^credential: there is no credential 'clowd' .*known are cloud"),
        ({"endpoint": "http://127.0.0.1:99"}, r"^endpoint: .* is not allowed"),
        ({"endpoint": "http://armor.example.com"}, r"^endpoint: must begin with https://"),
        ({"chunk": 10}, r"^chunk: must be at least"),
        ({"tempalte": "x"}, r"^tempalte: is not known here; did you mean template\?"),
    ],
)
def test_wrong_options_of_model_armor_are_reported(change: Json, message: str) -> None:
    targets = [f"{GOOGLE}/", "http://armor.example.com/"]
    environment = PolicyEnvironment(Path("/"), http_targets=targets, access_tokens=Tokens())
    with pytest.raises(ValueError, match=message):
        model_armor_policy({"template": TEMPLATE, "credential": "cloud", **change}, environment)


async def test_a_service_elsewhere_must_be_allowed(tmp_path: Path) -> None:
    hook = hook_of_policy("guardrail", "https://guard.example.com")
    with pytest.raises(SettingsError, match=r"options: url: https://guard\.example\.com/beta.* is neither"):
        async with asking_engine(tmp_path, {"BeforeModel": hook}, "http://127.0.0.1:1"):
            pass


def test_all_texts_are_judged_by_default() -> None:
    options = read_options(ModelArmorOptions, options_of("model_armor", GOOGLE))
    assert set(options.scopes) >= {"prompts", "system", "tool_results", "tool_arguments", "answers", "other"}


async def test_parts_of_a_long_text_are_judged_a_few_at_once(tmp_path: Path) -> None:
    async with guardrail("model_armor") as stand_in:
        stand_in.delay = 0.02  # so that requests that are sent together overlap
        outcome = await judge_event("model_armor", stand_in, tmp_path, asking("word " * 4000), chunk=1000)
        assert not outcome.verdict.denied
        assert len(stand_in.asked) > 16
        assert 1 < stand_in.most_at_once <= 8


# ---- joining and spreading

WORDS = st.text(alphabet="ab-\n", max_size=12) | st.sampled_from(["x" * 900, "---", "\n---\n", "-" * 12])
TEXTS = st.lists(
    st.builds(Text, place=st.just(()), text=WORDS.filter(bool), continues=st.booleans()), min_size=1
)


@given(TEXTS, st.integers(1000, 1200))
def test_payloads_are_bounded_and_contain_every_text(texts: list[Text], size: int) -> None:
    payloads = make_payloads(texts, size)
    assert all(len(payload.text) == payload.size <= size for payload in payloads)
    said = ["" for _ in texts]
    for payload in payloads:
        for run in payload.runs:
            for index, part in run:
                said[index] += part
    assert said == [text.text for text in texts]
    assert sum(payload.size for payload in payloads) <= 3 * sum(len(text.text) + 20 for text in texts)


@given(TEXTS)
def test_what_is_replaced_in_a_payload_is_replaced_in_its_texts(texts: list[Text]) -> None:
    texts = [replace(text, continues=False) for text in texts]
    payloads = make_payloads(texts, 100_000)
    edited = [payload.text.replace("a", "<A>") for payload in payloads]
    changed = spread_edits(payloads, edited)
    for index, text in enumerate(texts):
        assert changed.get(index, text.text) == text.text.replace("a", "<A>")


@given(TEXTS, st.lists(st.text(alphabet="ab-\n", max_size=2000)), st.integers(1000, 1200))
def test_any_answer_only_replaces_texts_or_is_refused(texts: list[Text], said: list[str], size: int) -> None:
    payloads = make_payloads(texts, size)
    edited = [new for new, _ in zip_longest(said[: len(payloads)], payloads)]
    try:
        changed = spread_edits(payloads, edited)
    except HookError:
        return
    assert changed.keys() <= set(range(len(texts)))
