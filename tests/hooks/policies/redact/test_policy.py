"""The policy `redact` on whole requests, whole answers, and tool events of agents."""

import base64
import copy
import inspect
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import pytest
from support.conversation import model_turn, user_turn
from support.hooks.builtins import ANNA, SENSITIVE, make_policy
from support.hooks.settings import write_file

from hookgate.hooks import SessionContext, SettingsError, load_settings
from hookgate.hooks.policies.redact import scanner
from hookgate.hooks.policies.redact.policy import redact_policy
from hookgate.hooks.policy_environment import PolicyEnvironment
from hookgate.hooks.runner_factory import make_runners

Json = dict[str, Any]
MAIL = "anna.berg@example.org"
KEY = "AKIA" + "Q3EGRYH7XJ4WPL2D"
OTHER_KEY = "AKIA" + "ZK4MNVT5RW7QXA3B"


def before_model(body: Json) -> Json:
    return {"hook_event_name": "BeforeModel", "llm_request": {"model": "m", "raw": body}}


def judge_request(contents: list[Json], options: Json | None = None, system: Json | None = None) -> Any:
    raw = {"contents": contents, **({"systemInstruction": system} if system else {})}
    return make_policy(redact_policy, SENSITIVE | (options or {}))(before_model(raw))


def sent_contents(contents: list[Json], options: Json | None = None, system: Json | None = None) -> Any:
    """The contents as they go to the model."""
    said = judge_request(contents, options, system) or {"hookSpecificOutput": {}}
    edit = said["hookSpecificOutput"].get("llm_request")
    return edit["raw"]["contents"] if edit else contents


def test_every_kind_of_part_is_covered_and_the_rest_stays() -> None:
    call = {"functionCall": {"name": "send", "args": {"to": [MAIL], "n": 1}}, "thoughtSignature": "c2ln"}
    result = {"functionResponse": {"name": "read", "id": "1", "response": {"output": f"key {KEY}"}}}
    contents = [
        user_turn(f"write to {MAIL}"),
        model_turn({"text": f"so, {MAIL}", "thought": True}, {"text": f"I write to {MAIL}."}, call),
        user_turn(result, {"inlineData": {"mimeType": "image/png", "data": "aGk="}}),
    ]
    before = copy.deepcopy(contents)
    assert sent_contents(contents) == [
        user_turn("write to [EMAIL]"),
        model_turn(
            {"text": "so, [EMAIL]", "thought": True},
            {"text": "I write to [EMAIL]."},
            {
                "functionCall": {"name": "send", "args": {"to": ["[EMAIL]"], "n": 1}},
                "thoughtSignature": "c2ln",
            },
        ),
        user_turn(
            {"functionResponse": {"name": "read", "id": "1", "response": {"output": "key [AWS_ACCESS_KEY]"}}},
            {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
        ),
    ]
    assert contents == before


def test_the_system_instruction_is_covered() -> None:
    said = judge_request([user_turn("hi")], system={"parts": [{"text": f"You serve {MAIL}."}]})
    edit = said["hookSpecificOutput"]
    assert edit["llm_request"]["raw"]["systemInstruction"] == {"parts": [{"text": "You serve [EMAIL]."}]}
    assert edit["findings"] == {"EMAIL": 1}


def test_nothing_found_says_nothing() -> None:
    assert judge_request([user_turn("hello world")]) is None


@pytest.mark.parametrize(
    ("scope", "kept"),
    [
        pytest.param("prompts", 0, id="prompts"),
        pytest.param("answers", 1, id="answers"),
        pytest.param("thoughts", 2, id="thoughts"),
        pytest.param("tool_arguments", 3, id="arguments"),
        pytest.param("tool_results", 4, id="results"),
    ],
)
def test_each_scope_is_searched_separately(scope: str, kept: int) -> None:
    contents = [
        user_turn(MAIL),
        model_turn(MAIL),
        model_turn({"text": MAIL, "thought": True}),
        model_turn({"functionCall": {"name": "f", "args": {"a": MAIL}}}),
        user_turn({"functionResponse": {"name": "f", "response": {"a": MAIL}}}),
    ]
    new = sent_contents(contents, {"scopes": [scope]})
    assert [at for at, (a, b) in enumerate(zip(new, contents, strict=True)) if a != b] == [kept]


@pytest.mark.parametrize("at", range(1, len(KEY)))
def test_a_secret_in_two_parts_or_two_turns_of_one_speaker_is_found(at: int) -> None:
    head, tail = f"it is {KEY[:at]}", f"{KEY[at:]} ok"
    two_parts = sent_contents([user_turn({"text": head}, {"text": tail})])
    two_turns = sent_contents([model_turn(head), model_turn(tail)])
    assert two_parts == [user_turn({"text": "it is [AWS_ACCESS_KEY]"}, {"text": " ok"})]
    assert two_turns == [model_turn("it is [AWS_ACCESS_KEY]"), model_turn(" ok")]


@pytest.mark.parametrize("holder", ["const", "default", "enum", "example", "examples", "value", "values"])
@pytest.mark.parametrize("listed", [False, True])
def test_a_password_in_a_schema_is_found_by_the_name_of_its_property(holder: str, listed: bool) -> None:
    password, mask = "tr0ub4dor&3xQ9z", "[ASSIGNMENT]"

    def request(name: str, value: str) -> Json:
        schema = {"type": "STRING", holder: [value, "other"] if listed else value}
        function = {"name": "log_in", "parameters": {"type": "OBJECT", "properties": {name: schema}}}
        return {"contents": [user_turn("hi")], "tools": [{"functionDeclarations": [function]}]}

    policy = make_policy(redact_policy, SENSITIVE)
    said: Any = policy(before_model(request("password", password)))
    assert said["hookSpecificOutput"]["llm_request"]["raw"] == request("password", mask)
    assert policy(before_model(request("place", password))) is None


def test_names_of_fields_numbers_and_passwords_by_their_name_are_found() -> None:
    args = {
        MAIL: 1,
        "card": 4539578763621486,
        "config": {"db_password": "tr0ub4dor&3xQ9z"},
        "count": 12345678,
    }
    [new] = sent_contents([model_turn({"functionCall": {"name": "f", "args": args}})])
    assert new["parts"][0]["functionCall"]["args"] == {
        "[EMAIL]": 1,
        "card": "[CARD]",
        "config": {"db_password": "[ASSIGNMENT]"},
        "count": 12345678,
    }


def test_pieces_of_clean_arguments_stay_beside_others() -> None:
    pieces = [
        {"jsonPath": "$.a", "stringValue": "clean"},
        {"jsonPath": "$.b", "stringValue": KEY[:9]},
        {"jsonPath": "$.n", "numberValue": 1},
        {"jsonPath": "$.b", "stringValue": KEY[9:]},
    ]
    [new] = sent_contents([model_turn({"functionCall": {"name": "f", "partialArgs": pieces}})])
    assert new["parts"][0]["functionCall"]["partialArgs"] == [
        pieces[0],
        {"jsonPath": "$.b", "stringValue": "[AWS_ACCESS_KEY]"},
        pieces[2],
        {"jsonPath": "$.b", "stringValue": ""},
    ]


def test_fields_whose_names_become_the_same_are_all_kept() -> None:
    args = {"a@example.org": 1, "b@example.org": 2}
    [new] = sent_contents([model_turn({"functionCall": {"name": "f", "args": args}})])
    assert list(new["parts"][0]["functionCall"]["args"].values()) == [1, 2]


def test_inline_files_of_text_are_looked_through() -> None:
    data = base64.b64encode(f"key={KEY}".encode()).decode()
    [new] = sent_contents([user_turn({"inlineData": {"mimeType": "text/csv", "data": data}})])
    assert KEY not in base64.b64decode(new["parts"][0]["inlineData"]["data"]).decode()


def test_files_that_come_with_a_result_are_looked_through() -> None:
    data = base64.b64encode(f"key={KEY}".encode()).decode()
    file = {"inlineData": {"mimeType": "text/plain", "data": data}}
    [new] = sent_contents([user_turn({"functionResponse": {"name": "f", "response": {}, "parts": [file]}})])
    [part] = new["parts"][0]["functionResponse"]["parts"]
    assert KEY not in base64.b64decode(part["inlineData"]["data"]).decode()


def test_texts_that_come_with_a_result_are_looked_through() -> None:
    result = {"name": "f", "response": {}, "parts": [{"text": f"key {KEY}"}]}
    [new] = sent_contents([user_turn({"functionResponse": result})])
    assert new["parts"][0]["functionResponse"]["parts"] == [{"text": "key [AWS_ACCESS_KEY]"}]


def test_a_hash_is_the_same_for_the_same_and_tells_nothing() -> None:
    [one] = sent_contents([user_turn(f"{MAIL} {MAIL} b@example.org")], {"action": "hash"})
    first, second, third = one["parts"][0]["text"].split()
    assert first == second != third
    assert first.startswith("[EMAIL:")


def test_each_kind_has_its_own_action() -> None:
    options = {"actions": {"EMAIL": "mask", "credentials": "hash"}, "mask": "<{kind} removed>"}
    [one] = sent_contents([user_turn(f"{MAIL} {KEY}")], options)
    assert one["parts"][0]["text"].startswith("<EMAIL removed> [AWS_ACCESS_KEY:")


def test_what_is_blocked_is_denied_in_the_newest_turn_and_masked_in_older_ones() -> None:
    options = {"actions": {"AWS_ACCESS_KEY": "block"}, "reason": "no keys here"}
    said = judge_request([user_turn(KEY)], options)
    assert (said["decision"], said["reason"]) == ("deny", "no keys here")
    assert said["hookSpecificOutput"]["findings"] == {"AWS_ACCESS_KEY": 1}
    later = [user_turn(KEY), model_turn("ok"), user_turn("go on")]
    assert sent_contents(later, options)[0] == user_turn("[AWS_ACCESS_KEY]")


def test_a_content_that_claims_to_be_the_model_s_last_one_is_judged_as_the_client_s() -> None:
    options = {"actions": {"AWS_ACCESS_KEY": "block"}}
    result = {"functionResponse": {"name": "read", "response": {"output": KEY}}}
    call = {"functionCall": {"name": "read", "args": {}}}
    for newest in (
        [model_turn(KEY)],
        [model_turn(call), model_turn(result)],
        [model_turn(result), user_turn("so?")],
        [
            model_turn(call),
            model_turn({"function_response": result["functionResponse"]}),
            user_turn("so?"),
        ],
    ):
        assert judge_request([user_turn("hi"), *newest], options)["decision"] == "deny"


@pytest.mark.parametrize(("scope", "turn"), [("prompts", 1), ("answers", None)])
def test_a_content_that_claims_to_be_the_model_s_last_one_has_the_scope_of_the_client_s(
    scope: str, turn: int | None
) -> None:
    contents = [user_turn("hi"), model_turn(MAIL)]
    new = sent_contents(contents, {"scopes": [scope]})
    changed = [at for at, (a, b) in enumerate(zip(new, contents, strict=True)) if a != b]
    assert changed == ([] if turn is None else [turn])


def test_own_patterns_and_words_are_found_and_kinds_are_skipped() -> None:
    options = {
        "patterns": {"TICKET": "TCK-[0-9]{6}"},
        "words": {"CODENAME": ["Blue Heron"]},
        "ignore_case": True,
        "skip": ["EMAIL"],
    }
    [one] = sent_contents([user_turn(f"TCK-123456 for blue heron, {MAIL}")], options)
    assert one["parts"][0]["text"] == f"[TICKET] for [CODENAME], {MAIL}"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param(
            {"detect": ["EMIAL"]}, "detect: unknown detector 'EMIAL'; did you mean EMAIL?", id="unknown"
        ),
        pytest.param({"skip": ["zzz"]}, "groups are AE, AR, ", id="nothing near"),
        pytest.param(
            {"patterns": {"A_B": "[a-"}},
            "of A_B is not a valid RE2 pattern: missing ]: [a-",
            id="RE2's words",
        ),
        pytest.param(
            {"patterns": {"A_B": "x(?=y)"}}, "; RE2 has no lookarounds: match the text around it", id="no RE2"
        ),
        pytest.param({"patterns": {"A_B": "[a-"}}, "patterns: the pattern of A_B ", id="option of a pattern"),
        pytest.param({"words": {"A_B": []}}, "words: A_B needs words", id="option of words"),
        pytest.param({"patterns": {"A_B": r"(x)\1"}}, "; RE2 has no back-references: ", id="back-reference"),
        pytest.param(
            {"action": "hide", "detect": "EMIAL", "skip": ["IBNA"]},
            "detect: unknown detector 'EMIAL'; did you mean EMAIL?; "
            "skip: unknown detector 'IBNA'; did you mean IBAN?; action: must be ",
            id="several",
        ),
        pytest.param({"skip": ["*"]}, "no detector is enabled", id="nothing"),
        pytest.param({"mask": "{who}"}, "mask: only {kind} is allowed in braces", id="mask"),
        pytest.param({"action": "hide"}, "action: ", id="action"),
    ],
)
def test_bad_options_are_reported(options: Json, expected: str) -> None:
    with pytest.raises(ValueError, match=r".*") as error:
        make_policy(redact_policy, options)
    assert expected in str(error.value)


def test_pseudonyms_are_the_same_for_the_same_and_come_back_in_text_and_calls(tmp_path: Path) -> None:
    policy: Any = redact_policy(
        {**SENSITIVE, "action": "pseudonymise"}, PolicyEnvironment(Path("/"), tmp_path)
    )
    session = SessionContext("s-1")
    request = {"contents": [user_turn(f"{MAIL} and {MAIL}, {KEY}")]}
    said = policy(before_model(request), session)
    text = said["hookSpecificOutput"]["llm_request"]["raw"]["contents"][0]["parts"][0]["text"]
    first, _, second = text.replace(",", "").split()[:3]
    assert first == second
    assert MAIL not in text
    assert KEY not in text
    [make] = session.call_state.client_filters.values()
    answer = {
        "candidates": [
            {
                "content": model_turn(
                    {"text": f"to {first}"}, {"functionCall": {"name": "f", "args": {first: [text]}}}
                )
            }
        ]
    }
    [(_, back)] = make().feed([answer], last=True)
    parts = back["candidates"][0]["content"]["parts"]
    assert parts[0]["text"] == f"to {MAIL}"
    assert parts[1]["functionCall"]["args"] == {MAIL: [f"{MAIL} and {MAIL}, {KEY}"]}


def test_pseudonyms_outlive_a_restart_and_are_another_gateways_own(tmp_path: Path) -> None:
    here, there = tmp_path / "a", tmp_path / "b"
    texts = [
        make_policy(redact_policy, {**SENSITIVE, "action": "pseudonymise"}, folder)(
            before_model({"contents": [user_turn(MAIL)]})
        )["hookSpecificOutput"]["llm_request"]["raw"]["contents"][0]["parts"][0]["text"]
        for folder in (here, here, there)
    ]
    assert texts[0] == texts[1] != texts[2]
    assert [(file.name, file.stat().st_mode & 0o777) for file in here.iterdir()] == [("redact.key", 0o600)]


def test_another_call_s_pseudonyms_do_not_come_back(tmp_path: Path) -> None:
    policy: Any = redact_policy(
        {**SENSITIVE, "action": "pseudonymise"}, PolicyEnvironment(Path("/"), tmp_path)
    )
    anna, bob = SessionContext("s-1"), SessionContext("s-1")
    request = {"contents": [user_turn(MAIL)]}
    said = policy(before_model(request), anna)
    token = said["hookSpecificOutput"]["llm_request"]["raw"]["contents"][0]["parts"][0]["text"]
    policy(before_model({"contents": [user_turn(token)]}), bob)
    answer = {"candidates": [{"content": model_turn(token)}]}
    for make in bob.call_state.client_filters.values():
        [(_, answer)] = make().feed([answer], last=True)
    assert answer["candidates"][0]["content"]["parts"][0]["text"] == token


def test_a_whole_answer_is_redacted_with_its_calls_and_sources() -> None:
    raw = {
        "candidates": [
            {
                "content": model_turn(
                    {"text": f"mail {MAIL}"}, {"functionCall": {"name": "f", "args": {"k": KEY}}}
                ),
                "finishReason": "STOP",
                "logprobsResult": {"chosenCandidates": [{"token": "anna"}]},
                "groundingMetadata": {"groundingSupports": [{"segment": {"text": f"mail {MAIL}"}}]},
            }
        ],
        "modelVersion": "m",
    }
    event = {"hook_event_name": "AfterModel", "llm_response": {"raw": raw}}
    said = make_policy(redact_policy, SENSITIVE)(event)["hookSpecificOutput"]
    [candidate] = said["llm_response"]["raw"]["candidates"]
    assert candidate == {
        "content": model_turn(
            {"text": "mail [EMAIL]"}, {"functionCall": {"name": "f", "args": {"k": "[AWS_ACCESS_KEY]"}}}
        ),
        "finishReason": "STOP",
        "groundingMetadata": {"groundingSupports": [{"segment": {"text": "mail [EMAIL]"}}]},
    }
    assert said["findings"] == {"EMAIL": 2, "AWS_ACCESS_KEY": 1}


def test_a_tool_call_with_a_secret_in_the_name_of_an_argument_is_denied() -> None:
    """An edit of arguments adds to them, so the name would stay, with its value."""
    policy = make_policy(redact_policy, SENSITIVE, session=ANNA)
    output = policy({"hook_event_name": "BeforeTool", "tool_input": {MAIL: MAIL, "n": 1}})
    assert output["decision"] == "deny"
    assert output["hookSpecificOutput"]["findings"] == {"EMAIL": 2}
    within = policy({"hook_event_name": "BeforeTool", "tool_input": {"to": {MAIL: MAIL}}})
    assert within["hookSpecificOutput"]["tool_input"] == {"to": {"[EMAIL]": "[EMAIL]"}}


def test_results_and_arguments_that_a_shim_tells_of_are_masked_and_never_exchanged() -> None:
    policy = make_policy(redact_policy, {**SENSITIVE, "action": "pseudonymise"}, session=ANNA)
    after = policy({"hook_event_name": "AfterTool", "tool_response": {"llmContent": f"key {KEY}"}})
    before = policy({"hook_event_name": "BeforeTool", "tool_input": {"to": MAIL}})
    assert after["hookSpecificOutput"]["tool_result"] == {"llmContent": "key [AWS_ACCESS_KEY]"}
    assert before["hookSpecificOutput"]["tool_input"] == {"to": "[EMAIL]"}


def test_results_and_arguments_that_a_shim_tells_of_are_hashed_as_requests_are() -> None:
    policy = make_policy(redact_policy, {**SENSITIVE, "action": "hash"}, session=ANNA)
    after = policy({"hook_event_name": "AfterTool", "tool_response": {"llmContent": MAIL}})
    before = policy({"hook_event_name": "BeforeTool", "tool_input": {"to": MAIL}})
    hashed = before["hookSpecificOutput"]["tool_input"]["to"]
    assert hashed.startswith("[EMAIL:")
    assert after["hookSpecificOutput"]["tool_result"] == {"llmContent": hashed}


def test_a_body_made_of_suspects_does_not_pass() -> None:
    numbers = " ".join(["4111111111111112"] * 300)
    said = judge_request([user_turn({"text": numbers[:2500]}, {"text": numbers[2500:]})], {"limit": 100})
    assert said["decision"] == "deny"
    assert "option `limit`" in said["reason"]


def test_the_well_known_test_card_is_found() -> None:
    assert sent_contents([user_turn("pay with 4111 1111 1111 1111")]) == [user_turn("pay with [CARD]")]


@pytest.mark.parametrize("stream", ["event", "window", "complete"])
def test_answers_can_be_judged_in_one_way_only(tmp_path: Path, stream: str) -> None:
    hook = {"type": "builtin", "builtin": "redact", "stream": stream}
    file = write_file(tmp_path / "settings.json", {"hooks": {"AfterModel": [{"hooks": [hook]}]}})
    with pytest.raises(SettingsError, match="decides itself what to hold back of a stream; remove the key"):
        make_runners(load_settings([file]).hooks())


async def test_a_long_text_is_looked_through_in_a_thread() -> None:
    said = judge_request([user_turn({"text": "All is well. " * 30_000 + MAIL})])
    edit = (await said)["hookSpecificOutput"]
    assert edit["findings"] == {"EMAIL": 1}


@pytest.mark.parametrize(
    "contents",
    [
        [user_turn({"text": "hello"}, {"text": KEY})],
        [user_turn({"text": KEY}, {"text": "hello"})],
        [user_turn("hello"), user_turn(KEY)],
    ],
    ids=["behind-a-part", "before-a-part", "behind-a-turn"],
)
def test_fields_next_to_a_text_do_not_hide_a_secret_in_it(contents: list[Json]) -> None:
    texts = [part["text"] for content in sent_contents(contents) for part in content["parts"]]
    assert sorted(texts) == ["[AWS_ACCESS_KEY]", "hello"]


@pytest.mark.parametrize(
    "part",
    [
        {"text": "so", "functionCall": {"name": "f", "args": {"x": KEY}}},
        {"functionCall": {"name": "f"}, "functionResponse": {"name": "f", "response": {"x": KEY}}},
        {"functionResponse": [{"name": "f", "response": {"x": KEY}}]},
        {"functionCall": {"name": "f", "partialArgs": [{"jsonPath": "$.x", "stringValue": KEY}]}},
        {"toolCall": {"toolType": "URL_CONTEXT", "args": {"x": KEY}}},
        {"tool_response": {"tool_type": "URL_CONTEXT", "response": {"x": [KEY]}}},
    ],
    ids=["text-and-call", "call-and-result", "results", "argument-in-pieces", "tool-call", "tool-result"],
)
def test_parts_with_more_fields_than_usual_are_covered(part: Json) -> None:
    assert KEY not in str(sent_contents([user_turn(part)]))


@pytest.mark.parametrize(
    ("media_type", "data"),
    [
        ("Text/Plain", base64.b64encode(KEY.encode()).decode()),
        ("application/ld+json", base64.b64encode(KEY.encode()).decode()),
        ("application/javascript", base64.b64encode(KEY.encode()).decode()),
        ("text/plain", base64.b64encode(KEY.encode()).decode().rstrip("=")),
        ("text/plain", base64.encodebytes(f"{'so ' * 40}{KEY} ".encode()).decode()),
        ("text/plain", base64.urlsafe_b64encode(f"~~?>~~ {KEY} ".encode()).decode()),
        ("text/plain", base64.b64encode(f"caf\xe9 {KEY}".encode("latin-1")).decode()),
    ],
    ids=["capitals", "suffix", "script", "unpadded", "lines", "url-alphabet", "latin-1"],
)
def test_text_files_are_covered_in_every_encoding(media_type: str, data: str) -> None:
    [content] = sent_contents([user_turn({"inlineData": {"mimeType": media_type, "data": data}})])
    new = content["parts"][0]["inlineData"]["data"]
    assert b"[AWS_ACCESS_KEY]" in base64.b64decode(new)
    assert KEY.encode() not in base64.b64decode(new)


def test_a_file_keeps_the_bytes_that_are_not_secret() -> None:
    data = base64.b64encode(f"caf\xe9 {KEY} \xff".encode("latin-1")).decode()
    [content] = sent_contents([user_turn({"inlineData": {"mimeType": "text/plain", "data": data}})])
    text = base64.b64decode(content["parts"][0]["inlineData"]["data"])
    assert text == b"caf\xe9 [AWS_ACCESS_KEY] \xff"


def test_a_whole_answer_of_which_nothing_is_left_stays_an_answer() -> None:
    raw = {"candidates": [{"content": model_turn(MAIL), "index": 0}]}
    event = {"hook_event_name": "AfterModel", "llm_response": {"raw": raw}}
    said = make_policy(redact_policy, {**SENSITIVE, "mask": ""})(event)
    assert said["hookSpecificOutput"]["llm_response"]["raw"] == {
        "candidates": [{"content": model_turn(), "index": 0}]
    }


@pytest.mark.parametrize(
    "secret",
    [KEY, MAIL, "ghp_" + "a1B2c3D4e5" * 4, "glpat-" + "a1B2c3D4e5F6g7H8i9J0"],
    ids=["aws", "mail", "github", "gitlab"],
)
def test_a_hash_is_taken_for_nothing(secret: str) -> None:
    policy = make_policy(redact_policy, {**SENSITIVE, "action": "hash"})

    def hashed(*texts: str) -> Any:
        request = {"contents": [user_turn(*({"text": text} for text in texts))]}
        said = policy(before_model(request))
        return said and said["hookSpecificOutput"]["llm_request"]["raw"]["contents"][0]["parts"]

    once = hashed(f"so {secret} ", "ok")
    assert str(once).count("[") == 2
    assert hashed(*(part["text"] for part in once)) is None


@pytest.mark.parametrize("media_type", ["image/svg+xml", "application/octet-stream", "image/png", None])
@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]
)
def test_a_text_file_is_searched_whatever_its_declared_type(media_type: str | None, encoding: str) -> None:
    text = f"<svg><!-- caf\xe9 {KEY} --></svg>"
    blob = {"data": base64.b64encode(text.encode(encoding)).decode()}
    [content] = sent_contents(
        [user_turn({"inlineData": blob | ({"mimeType": media_type} if media_type else {})})]
    )
    new = base64.b64decode(content["parts"][0]["inlineData"]["data"])
    assert new == text.replace(KEY, "[AWS_ACCESS_KEY]").encode(encoding)


def test_a_file_that_is_not_text_keeps_its_bytes() -> None:
    picture = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)) * 40 + KEY.encode()
    data = base64.b64encode(picture).decode()
    assert judge_request([user_turn({"inlineData": {"mimeType": "image/png", "data": data}})]) is None


@pytest.mark.parametrize("tail", [b"", b"A", b"\xff"])
def test_a_text_that_ends_in_half_a_character_is_looked_through(tail: bytes) -> None:
    data = base64.b64encode(f"key {KEY} ".encode("utf-16-le") + tail).decode()
    [content] = sent_contents([user_turn({"inlineData": {"data": data}})])
    new = base64.b64decode(content["parts"][0]["inlineData"]["data"])
    assert new == "key [AWS_ACCESS_KEY] ".encode("utf-16-le") + tail


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_text_with_half_a_surrogate_pair_is_looked_through(encoding: str) -> None:
    data = base64.b64encode(f"key {KEY} \ud800 ".encode(encoding, "surrogatepass")).decode()
    [content] = sent_contents([user_turn({"inlineData": {"data": data}})])
    new = base64.b64decode(content["parts"][0]["inlineData"]["data"])
    assert new == "key [AWS_ACCESS_KEY] \ud800 ".encode(encoding, "surrogatepass")


def test_base64_behind_padding_in_the_middle_is_looked_through() -> None:
    data = base64.b64encode(b"a").decode() + base64.b64encode(f" {KEY} ".encode()).decode()
    [content] = sent_contents([user_turn({"inlineData": {"mimeType": "text/plain", "data": data}})])
    assert base64.b64decode(content["parts"][0]["inlineData"]["data"]) == b"a [AWS_ACCESS_KEY] "


@pytest.mark.parametrize("at", range(1, len(KEY)))
@pytest.mark.parametrize("together", [True, False], ids=["one call", "a content for each event"])
def test_arguments_in_pieces_in_a_request_are_read_as_one(at: int, together: bool) -> None:
    def piece(value: str, goes_on: bool) -> Json:
        return {"jsonPath": "$.command", "stringValue": value, "willContinue": goes_on}

    def call(*pieces: Json, goes_on: bool) -> Json:
        return model_turn(
            {"functionCall": {"name": "f", "partialArgs": list(pieces), "willContinue": goes_on}}
        )

    head, tail = piece(f"run {KEY[:at]}", True), piece(f"{KEY[at:]} now", False)
    if together:
        new = sent_contents([call(head, tail, goes_on=False)])
    else:
        new = sent_contents([call(head, goes_on=True), call(tail, goes_on=False)])
    pieces = [each for turn in new for each in turn["parts"][0]["functionCall"]["partialArgs"]]
    assert "".join(each["stringValue"] for each in pieces) == "run [AWS_ACCESS_KEY] now"


def test_a_long_text_that_continues_like_a_key_is_masked_everywhere() -> None:
    begun = "-----BEGIN RSA PRIVATE KEY-----\n" + "A" * 9000
    raw = {"contents": [user_turn("hi")], "labels": {"note": begun}}
    said = make_policy(redact_policy, SENSITIVE)(before_model(raw))
    assert "AAAA" not in str(said)
    assert said["hookSpecificOutput"]["findings"] == {"PRIVATE_KEY": 1}


def test_numbers_that_are_equal_are_looked_through_alike() -> None:
    args = [{"n": 4111111111111111.0}, {"n": 4111111111111111}]
    [new] = sent_contents([model_turn({"functionCall": {"name": "f", "args": {"all": args}}})])
    assert new["parts"][0]["functionCall"]["args"] == {"all": [{"n": "[CARD]"}, {"n": "[CARD]"}]}


def test_a_pattern_that_begins_a_text_is_found_in_every_string() -> None:
    """Many strings are searched at once, and none of them may hide where another begins or ends."""
    options = {"patterns": {"FIRST": r"\Aalpha$", "LAST": r"(?-m:^beta$)"}}
    raw = {"contents": [user_turn("hi")], "labels": {"a": "x", "b": "alpha", "c": "beta", "d": "y"}}
    said = make_policy(redact_policy, SENSITIVE | options)(before_model(raw))
    labels = said["hookSpecificOutput"]["llm_request"]["raw"]["labels"]
    assert labels == {"a": "x", "b": "[FIRST]", "c": "[LAST]", "d": "y"}


def test_a_policy_is_not_made_to_see_less(tmp_path: Path) -> None:
    hook = {"type": "builtin", "builtin": "redact", "view": "text"}
    file = write_file(tmp_path / "settings.json", {"hooks": {"BeforeModel": [{"hooks": [hook]}]}})
    with pytest.raises(SettingsError, match='this policy supports only "view": "body"; remove the key'):
        load_settings([file])


def test_data_that_is_not_base64_is_searched_as_text() -> None:
    [content] = sent_contents([user_turn({"inlineData": {"data": f"key: {KEY}!"}})])
    assert content["parts"][0]["inlineData"]["data"] == "key: [AWS_ACCESS_KEY]!"


def test_a_word_that_names_a_speaker_leaves_the_roles_alone() -> None:
    new = sent_contents([user_turn("my user")], {"words": {"WHO": ["user"]}})
    assert new == [user_turn("my [WHO]")]


@pytest.mark.parametrize("unit", ["12345678A ", "4111111111111112 ", "password=abcdefg1 "])
async def test_text_made_of_suspects_is_looked_through_in_a_thread(unit: str) -> None:
    policy: Any = redact_policy(SENSITIVE, PolicyEnvironment(Path("/")))
    said = policy(
        before_model({"contents": [user_turn({"text": unit * 2000 + MAIL})]}), SessionContext("s-1")
    )
    assert inspect.isawaitable(said)
    text = (await said)["hookSpecificOutput"]["llm_request"]["raw"]["contents"][0]["parts"][0]["text"]
    assert text == unit * 2000 + "[EMAIL]"


async def test_an_ordinary_text_is_looked_through_at_once() -> None:
    policy: Any = redact_policy(SENSITIVE, PolicyEnvironment(Path("/")))
    assert isinstance(
        policy(before_model({"contents": [user_turn(f"write to {MAIL}")]}), SessionContext("s-1")),
        dict,
    )


PERSONAL = f"{MAIL} 4111 1111 1111 1111, 123-45-6789, 127.0.0.1"


@pytest.mark.parametrize(
    ("options", "masked"),
    [
        pytest.param({}, PERSONAL, id="nothing by default"),
        pytest.param({"detect": ["EMAIL"]}, PERSONAL.replace(MAIL, "[EMAIL]"), id="a kind"),
        pytest.param({"detect": ["US"]}, PERSONAL.replace("123-45-6789", "[US_SSN]"), id="a country"),
        pytest.param({"detect": ["personal"]}, "[EMAIL] [CARD], [US_SSN], 127.0.0.1", id="personal data"),
        pytest.param({"detect": ["*"]}, "[EMAIL] [CARD], [US_SSN], [IP_ADDRESS]", id="everything"),
    ],
)
def test_personal_data_is_redacted_on_request(options: Json, masked: str) -> None:
    event = before_model({"contents": [user_turn(PERSONAL)]})
    said = make_policy(redact_policy, options)(event)
    contents = said["hookSpecificOutput"]["llm_request"]["raw"]["contents"] if said else None
    assert contents == (None if masked == PERSONAL else [user_turn(masked)])


@pytest.mark.parametrize("detect", [{}, {"detect": ["personal"], "skip": ["EMAIL"]}])
def test_an_action_for_what_is_not_detected_is_an_error(detect: Json) -> None:
    """Before, such a policy would have looked as if it redacted addresses."""
    with pytest.raises(ValueError, match="actions: 'EMAIL' is not detected; add it to `detect`"):
        make_policy(redact_policy, {**detect, "actions": {"EMAIL": "pseudonymise"}})


def test_the_name_of_a_field_counts_wherever_it_is_repeated() -> None:
    """A value that is harmless under one name may be a secret under another, in the same request too."""
    value = "kR9!vq82Lm#x"
    call = {"functionCall": {"name": "f", "args": {"password": "none"}}}
    again = {"functionCall": {"name": "f", "args": {"note": value, "inner": {"password": value}}}}
    new = sent_contents([user_turn(call, again)])
    assert str(new).count(value) == 1


def test_no_field_is_lost_whose_name_is_masked_like_others() -> None:
    addresses = {f"{name}@example.org": name for name in ("anna", "ben", "carl")}
    [turn] = sent_contents([user_turn({"functionCall": {"name": "f", "args": addresses}})])
    assert turn["parts"][0]["functionCall"]["args"] == {
        "[EMAIL]": "anna",
        "[EMAIL]_2": "ben",
        "[EMAIL]_3": "carl",
    }


@pytest.mark.parametrize("begun", ["eyJ", "password = "])
def test_what_may_be_a_secret_and_is_longer_than_any_is_masked(begun: str) -> None:
    assert "aaaa" not in str(sent_contents([user_turn(f"So: {begun}{'a' * 9000}")]))


@pytest.mark.parametrize("scope", ["prompts", "answers", "thoughts"])
@pytest.mark.parametrize("role", ["user", "model"])
@pytest.mark.parametrize(
    ("part", "masked"),
    [(MAIL, "[EMAIL]"), ([MAIL, 5], ["[EMAIL]", 5]), (4111111111111111, "[CARD]")],
    ids=["string", "list", "number"],
)
def test_a_part_that_is_not_an_object_is_redacted_in_the_scope_of_its_turn(
    part: Any, masked: Any, role: str, scope: str
) -> None:
    """It is not a documented format, but it would be forwarded."""
    turn = {"role": role, "parts": [part, {"text": "hi"}, None]}
    following = user_turn("go on")  # the model's turns at the end are the client's
    options = {"scopes": [scope]}
    own = {"user": "prompts", "model": "answers"}[role]
    expected = {"role": role, "parts": [masked, {"text": "hi"}, None]} if scope == own else turn
    assert sent_contents([turn, following], options) == [expected, following]


def test_policies_of_the_same_detectors_share_a_scanner_as_long_as_one_uses_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scanner, "_shared", scanners := WeakValueDictionary[Any, Any]())
    words = {"words": {"CODENAME": ["Blue Heron"]}, "detect": ["CODENAME"]}
    environment = PolicyEnvironment(Path("/"))
    requests, answers = redact_policy({}, environment), redact_policy({"action": "block"}, environment)
    pseudonyms = 1
    assert len(scanners) == 1 + pseudonyms
    own = redact_policy(words, environment)
    assert len(scanners) == 2 + pseudonyms
    del requests, own
    assert len(scanners) == 1 + pseudonyms
    del answers
    assert len(scanners) == 0
