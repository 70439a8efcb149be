"""What a hook's output says about findings: kind, source, place and hash, and how one is let stay."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.bodies.jsontext import json_values
from support.conversation import model_turn, user_turn
from support.hooks.builtins import SENSITIVE, run_policy

from hookgate.hooks import SessionContext
from hookgate.hooks.policies.redact import DETECTORS, shared_scanner
from hookgate.hooks.policies.redact.policy import redact_policy
from hookgate.hooks.policies.redact.redaction import Redaction, Search
from hookgate.hooks.policies.redact.report import MAX_REPORTED
from hookgate.hooks.policy_environment import PolicyEnvironment

Json = dict[str, Any]
MAIL = "anna.berg@example.org"
KEY = "AKIA" + "Q3EGRYH7XJ4WPL2D"
ALL = shared_scanner(DETECTORS)
RULE = {"id": "ticket", "regex": "TCK-[0-9]{6}"}


@pytest.fixture
def environment(tmp_path: Path) -> PolicyEnvironment:
    return PolicyEnvironment(Path("/"), tmp_path)


def redacting(options: Json | None = None, environment: PolicyEnvironment | None = None) -> Any:
    if options is None:
        return by_default()
    return redact_policy(SENSITIVE | options, environment or PolicyEnvironment(Path("/")))


@cache
def by_default() -> Any:
    """The policy without further options, whose patterns take a second to compile."""
    return redact_policy(SENSITIVE, PolicyEnvironment(Path("/")))


def before_model(body: Json) -> Json:
    return {"hook_event_name": "BeforeModel", "llm_request": {"model": "m", "raw": body}}


def judge_event(policy: Any, event: Json) -> Json:
    specific: Json = (run_policy(policy, event) or {}).get("hookSpecificOutput", {})
    return specific


def found(body: Json, options: Json | None = None) -> list[Json]:
    listed: list[Json] = judge_event(redacting(options), before_model(body)).get("found", [])
    return listed


def places(body: Json, options: Json | None = None) -> list[str]:
    return [each["place"] for each in found(body, options)]


def at(value: Any, place: str) -> Any:
    """The value at a place."""
    for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", place):
        value = value[name] if name else value[int(index)]
    return value


def test_a_finding_is_told_by_kind_source_place_and_hash() -> None:
    options = {"patterns": {"OWN": "own-[0-9]{4}"}, "rules": [RULE]}
    told = found(
        {"contents": [user_turn("hi"), model_turn("hm"), user_turn(f"{KEY} TCK-123456 own-1234")]}, options
    )
    assert [(each["kind"], each["source"], each["place"]) for each in told] == [
        ("AWS_ACCESS_KEY", "built-in", "contents[2].parts[0].text"),
        ("TICKET", "settings: ticket", "contents[2].parts[0].text"),
        ("OWN", "settings", "contents[2].parts[0].text"),
    ]
    assert all(re.fullmatch(rf"HG_{each['kind']}_[0-9a-f]{{16}}", each["hash"]) for each in told)
    assert KEY not in str(told)


PARTIAL = {"jsonPath": "$.to", "stringValue": MAIL}


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"systemInstruction": {"parts": [{"text": MAIL}]}}, "systemInstruction.parts[0].text"),
        ({"contents": [user_turn("hi ", MAIL)]}, "contents[0].parts[1].text"),
        ({"contents": user_turn(MAIL)}, "contents.parts[0].text"),
        ({"contents": [model_turn({"text": MAIL, "thought": True})]}, "contents[0].parts[0].text"),
        (
            {"contents": [model_turn({"functionCall": {"name": "f", "args": {"to": ["x", MAIL]}}})]},
            "contents[0].parts[0].functionCall.args.to[1]",
        ),
        (
            {"contents": [model_turn({"functionCall": {"name": "f", "partialArgs": [PARTIAL]}})]},
            "contents[0].parts[0].functionCall.partialArgs[0].stringValue",
        ),
        (
            {"contents": [user_turn({"functionResponse": {"name": "f", "response": {"out": MAIL}}})]},
            "contents[0].parts[0].functionResponse.response.out",
        ),
        (
            {
                "contents": [
                    user_turn(
                        {"inlineData": {"mimeType": "text/plain", "data": "YW5uYS5iZXJnQGV4YW1wbGUub3Jn"}}
                    )
                ]
            },
            "contents[0].parts[0].inlineData.data",
        ),
        ({"labels": {"who": MAIL}, "contents": [user_turn("hi")]}, "labels.who"),
        ({"labels": {MAIL: "x"}, "contents": [user_turn("hi")]}, "labels"),
        ({"labels": {"a b/c": MAIL}, "contents": [user_turn("hi")]}, "labels.…"),
    ],
)
def test_the_place_is_the_path_in_the_body(body: Json, place: str) -> None:
    assert places({"contents": [], **body}) == [place]


def test_a_secret_across_turns_is_where_it_begins() -> None:
    contents = [user_turn("hi"), model_turn("hm"), user_turn("I am anna.be"), user_turn("rg@example.org")]
    assert places({"contents": contents}) == ["contents[2].parts[0].text"]


PLANTS = st.sampled_from([MAIL, KEY, "nothing", ""])
BODIES = st.recursive(
    PLANTS | json_values,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b_1", "c"]), inner, max_size=3)
    ),
    max_leaves=15,
)


@given(BODIES)
def test_every_place_of_any_value_leads_to_what_was_changed(body: Any) -> None:
    redaction = Redaction(Search(ALL, hash_of=lambda kind, _: kind), lambda kind, _: f"[{kind}]")
    new = redaction.value(body)
    listed = redaction.report.output().get("found", [])
    changed = [each["place"] for each in listed if "…" not in each["place"]]
    assert all(at(new, place) != at(body, place) for place in changed)
    assert len(listed) == min(sum(redaction.findings.values()), MAX_REPORTED)


@pytest.mark.parametrize("size", range(1, len(MAIL) + 3))
def test_the_place_of_a_finding_in_a_stream_is_its_path_in_an_event(size: int) -> None:
    text = f"I am {MAIL}, so"
    screen = redacting().screen(SessionContext("s-1"))
    for begin in range(0, len(text), size):
        part = {"text": text[begin : begin + size]}
        content = {"role": "model", "parts": [part]}
        screen.feed(
            [{"candidates": [{"content": {"parts": []}, "index": 0}, {"content": content, "index": 1}]}],
            last=False,
        )
    screen.feed([], last=True)
    [one] = screen.findings_output()["hookSpecificOutput"]["found"]
    assert (one["kind"], one["place"]) == ("EMAIL", "candidates[1].content.parts[0].text")


def test_the_places_of_an_answer_s_other_fields_are_told() -> None:
    call = {"functionCall": {"name": "f", "args": {"to": MAIL}}}
    candidate = {"content": {"role": "model", "parts": [{"text": "x"}, call]}, "finishMessage": KEY}
    event = {"hook_event_name": "AfterModel", "llm_response": {"raw": {"candidates": [candidate]}}}
    assert [each["place"] for each in judge_event(redacting(), event)["found"]] == [
        "candidates[0].content.parts[1].functionCall.args.to",
        "candidates[0].finishMessage",
    ]


@pytest.mark.parametrize("event", ["BeforeTool", "AfterTool"])
def test_the_places_in_arguments_and_results_of_tools_are_told(event: str) -> None:
    fields = {"tool_input": {"to": [MAIL]}, "tool_response": {"to": [MAIL]}}
    [one] = judge_event(redacting(), {"hook_event_name": event, "tool_name": "f", **fields})["found"]
    assert one["place"] == "to[0]"


def test_what_is_blocked_has_its_place() -> None:
    options = {"actions": {"AWS_ACCESS_KEY": "block"}}
    contents = [
        user_turn("hi"),
        user_turn(MAIL, {"functionResponse": {"name": "f", "response": {"out": KEY}}}),
    ]
    said = judge_event(redacting(options), before_model({"contents": contents}))
    assert said["findings"] == {"AWS_ACCESS_KEY": 1}
    assert [each["place"] for each in said["found"]] == ["contents[1].parts[1].functionResponse.response.out"]


def test_many_findings_are_counted_and_a_few_of_them_told() -> None:
    many = [f"user{number}@example.org " for number in range(5000)]
    said = judge_event(redacting(), before_model({"contents": [user_turn(*many)]}))
    assert said["findings"] == {"EMAIL": 5000}
    assert [each["place"] for each in said["found"]] == [
        f"contents[0].parts[{number}].text" for number in range(MAX_REPORTED)
    ]


def test_a_place_in_many_levels_is_cut() -> None:
    value: Any = MAIL
    for _ in range(60):
        value = {"level": value}
    [place] = places({"labels": value, "contents": [user_turn("hi")]})
    assert place.startswith("labels.level.level.")
    assert len(place) <= 240


# ---- letting a finding stay


@pytest.mark.parametrize("action", ["mask", "hash", "pseudonymise", "block"])
def test_a_finding_whose_hash_is_allowed_stays(action: str, environment: PolicyEnvironment) -> None:
    body = {"contents": [user_turn(f"{MAIL} and {KEY}")]}
    told = judge_event(redacting({}, environment), before_model(body))["found"]
    [allowed] = [each["hash"] for each in told if each["kind"] == "EMAIL"]
    options = {"allow": [allowed], "actions": {"EMAIL": action}}
    said = judge_event(redacting(options, environment), before_model(body))
    assert said["llm_request"]["raw"]["contents"] == [user_turn(f"{MAIL} and [AWS_ACCESS_KEY]")]
    assert said["findings"] == {"AWS_ACCESS_KEY": 1}
    assert [each["kind"] for each in said["found"]] == ["AWS_ACCESS_KEY"]


def test_an_allowed_finding_alone_leaves_the_body_as_it_is(environment: PolicyEnvironment) -> None:
    body = {"contents": [user_turn(f"I am {MAIL}")]}
    [one] = judge_event(redacting({}, environment), before_model(body))["found"]
    policy = redacting({"allow": [one["hash"]]}, environment)
    assert [judge_event(policy, before_model(body)) for _ in range(2)] == [{}, {}]
    other = {"contents": [user_turn("I am berta@example.org")]}
    assert judge_event(policy, before_model(other))["findings"] == {"EMAIL": 1}


@pytest.mark.parametrize("is_json", [False, True])
def test_an_allowed_finding_stays_in_streams_at_every_split(
    is_json: bool, environment: PolicyEnvironment
) -> None:
    number = "4111111111111111"
    text = f'{{"to": "{MAIL}\\u00e9", "card": {number}, "key": "{KEY}"}}'
    policy = redacting({}, environment)
    event = before_model({"contents": [user_turn(f"{MAIL} {number}")]})
    allowed = [each["hash"] for each in judge_event(policy, event)["found"]]
    policy = redacting({"allow": allowed}, environment)
    outputs = set()
    for cut in range(1, len(text)):
        session = SessionContext("s-1")
        session.call_state.requires_json = is_json
        screen = policy.screen(session)
        out = []
        for piece in (text[:cut], text[cut:]):
            content = {"role": "model", "parts": [{"text": piece}]}
            out += screen.feed([{"candidates": [{"content": content, "index": 0}]}], last=False)
        out += screen.feed([], last=True)
        outputs.add(
            "".join(p["text"] for _, e in out for c in e["candidates"] for p in c["content"]["parts"])
        )
    assert outputs == {text.replace(KEY, "[AWS_ACCESS_KEY]")}


def test_the_beginning_of_a_longer_finding_has_no_hash(environment: PolicyEnvironment) -> None:
    long = "password='" + "q7Kz3xY9" * 100
    screen = redacting({"cap": 256}, environment).screen(SessionContext("s-1"))
    content = {"role": "model", "parts": [{"text": long}]}
    screen.feed([{"candidates": [{"content": content, "index": 0}]}], last=False)
    [one] = screen.findings_output()["hookSpecificOutput"]["found"]
    assert "hash" not in one


def test_hashes_differ_between_keys_and_between_kinds(tmp_path: Path) -> None:
    environments = [PolicyEnvironment(Path("/"), tmp_path / name) for name in "ab"]
    event = before_model({"contents": [user_turn(MAIL)]})
    hashes = {judge_event(redacting({}, each), event)["found"][0]["hash"] for each in environments}
    assert len(hashes) == 2
    own = redacting({"patterns": {"OWN": re.escape(MAIL)}}, environments[0])
    [one] = judge_event(own, event)["found"]
    assert one["hash"][-16:] not in {each[-16:] for each in hashes}


@pytest.mark.parametrize(
    "wrong", ["EMAIL", "HG_EMAIL_9c1f", "9c1f04d2ab7e5a10", f"HG_EMAIL_{'9' * 17}", MAIL]
)
def test_a_wrong_hash_is_an_error_that_names_the_remedy(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"allow: .* is not the hash of a finding; copy it from a receipt"):
        redacting({"allow": [wrong]})


def test_the_report_is_valid_json_whatever_names_there_are() -> None:
    names = ["x" * 500, "", "a.b", "[0]", "é"]
    body = {"contents": [user_turn("hi")], "labels": dict.fromkeys(names, MAIL)}
    assert places(body) == ["labels.…"] * len(names)
    assert json.dumps(places(body))
