"""The policy `cassette`: which requests are the same, what a recording contains, and what each mode does."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from support.conversation import model_turn

from hookgate.hooks import SessionContext
from hookgate.hooks.policies.cassette import cassette_policy
from hookgate.hooks.policy_environment import Policy, PolicyEnvironment
from hookgate.translator import show_request, show_request_raw, show_response

Json = dict[str, Any]

CALL = {"functionCall": {"id": "c-1", "name": "read", "args": {"file_path": "a"}}, "thoughtSignature": "c2ln"}
RESULT = {"functionResponse": {"id": "c-1", "name": "read", "response": {"output": "text"}}}
BODY: Json = {
    "systemInstruction": {"parts": [{"text": "Be brief. Today is Monday."}]},
    "contents": [
        {"role": "user", "parts": [{"text": "read it"}]},
        {"role": "model", "parts": [CALL]},
        {"role": "user", "parts": [RESULT]},
    ],
    "tools": [{"functionDeclarations": [{"name": "read", "description": "Reads."}]}],
    "generationConfig": {"maxOutputTokens": 9, "seed": 1},
}
ANSWER: Json = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "done"}, CALL]}, "finishReason": "STOP"}],
    "modelVersion": "m-1",
}


def policy(folder: Path, **options: Any) -> Policy:
    return cassette_policy(options, PolicyEnvironment(folder))


async def ask(cassette: Policy, body: Json, session: SessionContext | None = None, model: str = "m") -> Any:
    event = {"hook_event_name": "BeforeModel", "llm_request": show_request_raw(model, body)}
    return await cassette(event, session or SessionContext("s"))


async def answer(cassette: Policy, body: Json, session: SessionContext) -> Any:
    shown = {**show_response(body), "raw": body}
    return await cassette({"hook_event_name": "AfterModel", "llm_response": shown}, session)


async def record(folder: Path, body: Json = BODY, said: Json = ANSWER, **options: Any) -> Json:
    """Record one answer, as the two hooks of a gateway do; what the only recording holds then."""
    session = SessionContext("s")
    options = {"redact": False, **options}
    assert await ask(policy(folder, **options), body, session) is None
    assert await answer(policy(folder, **options), said, session) is None
    [file] = on_tape(folder)
    recording: Json = json.loads(file.read_text())
    return recording


def on_tape(folder: Path) -> list[Path]:
    return list(folder.glob("cassettes/*.json"))


def replayed(said: Any) -> Any:
    return said["hookSpecificOutput"]["llm_response"]["raw"]


def changed(*steps: Any, to: Any) -> Json:
    """The request with another value at one place."""
    body = place = copy.deepcopy(BODY)
    for step in steps[:-1]:
        place = place[step]
    place[steps[-1]] = to
    return body


async def test_an_answer_is_given_again_whole(tmp_path: Path) -> None:
    recording = await record(tmp_path)
    assert recording["answer"] == ANSWER
    assert replayed(await ask(policy(tmp_path, redact=False), BODY)) == ANSWER


async def test_a_recording_can_be_read_by_its_owner_only(tmp_path: Path) -> None:
    recording = await record(tmp_path)
    [file] = on_tape(tmp_path)
    assert file.name == f"{recording['key']}.json"
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert recording["request"] == {
        "model": "m",
        "turns": 3,
        "system": "Be brief. Today is Monday.",
        "last": "results of read",
        "tools": ["read"],
    }


SNAKE = {
    "generation_config": {"seed": 1.0, "max_output_tokens": 9},
    "tools": [{"function_declarations": [{"description": "Reads.", "name": "read"}]}],
    "contents": [
        {"parts": {"text": "read it"}, "role": "user"},
        {"role": "model", "parts": [{"function_call": {"name": "read", "args": {"file_path": "a"}}}]},
        {
            "role": "user",
            "parts": [{"function_response": {"id": "x", "name": "read", "response": {"output": "text"}}}],
        },
    ],
    "system_instruction": {"parts": [{"text": "Be brief. Today is Monday."}]},
}


@pytest.mark.parametrize(
    "same",
    [
        SNAKE,
        changed("contents", 1, "parts", 0, "functionCall", "id", to="c-2"),
        changed("contents", 1, "parts", 0, "thoughtSignature", to="b3RoZXI="),
        {**BODY, "toolConfig": {}},
    ],
    ids=["another spelling", "another id", "another signature", "an empty toolConfig"],
)
async def test_the_same_request_gets_the_same_answer(tmp_path: Path, same: Json) -> None:
    await record(tmp_path)
    assert replayed(await ask(policy(tmp_path, mode="replay", redact=False), same)) == ANSWER


@pytest.mark.parametrize(
    "other",
    [
        changed("contents", 0, "parts", 0, "text", to="read that"),
        changed("contents", 1, "parts", 0, "functionCall", "args", to={"filePath": "a"}),
        changed("contents", 2, "parts", 0, "functionResponse", "response", "output", to="other"),
        changed("systemInstruction", "parts", 0, "text", to="Be brief. Today is Tuesday."),
        changed("tools", 0, "functionDeclarations", 0, "description", to="Reads!"),
        changed("generationConfig", "seed", to=2),
        {**BODY, "toolConfig": {"functionCallingConfig": {"mode": "NONE"}}},
    ],
    ids=["text", "arguments", "result", "system instruction", "tools", "settings", "tool selection"],
)
async def test_another_request_is_not_recorded(tmp_path: Path, other: Json) -> None:
    recording = await record(tmp_path)
    said = await ask(policy(tmp_path, mode="replay", redact=False), other)
    assert said["decision"] == "deny"
    assert recording["key"] not in said["reason"]


def texts(*texts: str, **more: Any) -> list[Json]:
    return [{"text": text, **more} for text in texts]


@pytest.mark.parametrize(
    "said",
    [
        [model_turn(*texts("Hm.", thought=True), *texts("I look.", ""), CALL)],
        [model_turn(*texts("H", "m.", thought=True), *texts("I ", "look."), CALL)],
        [
            model_turn(*texts("Hm.", thought=True)),
            model_turn(*texts("", "I ")),
            model_turn(*texts("look.")),
            model_turn(CALL),
        ],
        [model_turn(*texts("Hm.", thought=True), *texts("I "), CALL, *texts("look."))],
    ],
    ids=["at once", "in parts", "in turns", "around a call"],
)
async def test_it_does_not_count_in_how_many_pieces_a_model_spoke(tmp_path: Path, said: list[Json]) -> None:
    question, *_, result = BODY["contents"]
    whole = model_turn(*texts("Hm.", thought=True), *texts("I look."), CALL)
    await record(tmp_path, {"contents": [question, whole, result]})
    again = {"contents": [question, *said, result]}
    assert replayed(await ask(policy(tmp_path, mode="replay", redact=False), again)) == ANSWER


async def test_what_a_person_said_in_two_turns_is_not_said_in_one(tmp_path: Path) -> None:
    await record(tmp_path, {"contents": [{"parts": texts("a")}, {"parts": texts("b")}]})
    cassette = policy(tmp_path, mode="replay", redact=False)
    assert (await ask(cassette, {"contents": [{"parts": texts("a", "b")}]}))["decision"] == "deny"


async def test_another_model_is_another_request(tmp_path: Path) -> None:
    await record(tmp_path)
    said = await ask(policy(tmp_path, mode="replay", redact=False), BODY, model="m-2")
    assert said["decision"] == "deny"


async def test_a_denial_names_the_key_the_folder_and_the_remedy(tmp_path: Path) -> None:
    recording = await record(tmp_path)
    [file] = on_tape(tmp_path)
    file.unlink()
    said = await ask(policy(tmp_path, mode="replay", redact=False), BODY)
    reported = f"there is no {recording['key']}.json in {file.parent}. Record it with the mode"
    assert said["reason"].startswith(f"No answer to this request is recorded: {reported}")


@pytest.mark.parametrize(
    ("options", "same"),
    [
        ({"ignore": ["/generationConfig/seed"]}, changed("generationConfig", "seed", to=7)),
        ({"ignore": ["/generationConfig"]}, changed("generationConfig", to={"topK": 3})),
        ({"ignore": ["/contents/0"]}, changed("contents", 0, "parts", 0, "text", to="hi")),
        ({"ignore": ["/contents/0/parts/0/text"]}, changed("contents", 0, "parts", 0, "text", to="hi")),
        (
            {"blank": ["Today is [A-Z][a-z]+"]},
            changed("systemInstruction", "parts", 0, "text", to="Be brief. Today is Friday."),
        ),
        (
            {"blank": ["te.t"]},
            changed("contents", 2, "parts", 0, "functionResponse", "response", "output", to="test"),
        ),
    ],
    ids=["a setting", "all settings", "a turn", "a text", "a date", "a result"],
)
async def test_what_varies_may_be_left_out(tmp_path: Path, options: Json, same: Json) -> None:
    await record(tmp_path, **options)
    assert replayed(await ask(policy(tmp_path, mode="replay", redact=False, **options), same)) == ANSWER
    assert (await ask(policy(tmp_path, mode="replay", redact=False), same))["decision"] == "deny"


async def test_a_pointer_to_nothing_leaves_nothing_out(tmp_path: Path) -> None:
    await record(tmp_path)
    ignoring = policy(tmp_path, mode="replay", redact=False, ignore=["/contents/9", "/x/y", "/tools/name"])
    assert replayed(await ask(ignoring, BODY)) == ANSWER


async def test_recording_asks_the_model_again_and_keeps_its_last_answer(tmp_path: Path) -> None:
    await record(tmp_path)
    later = {**ANSWER, "modelVersion": "m-2"}
    assert (await record(tmp_path, said=later, mode="record"))["answer"] == later


async def test_a_replaying_cassette_records_nothing(tmp_path: Path) -> None:
    session = SessionContext("s")
    await ask(policy(tmp_path, redact=False), BODY, session)
    assert await answer(policy(tmp_path, mode="replay"), ANSWER, session) is None
    assert on_tape(tmp_path) == []


async def test_an_answer_to_a_request_that_was_not_seen_is_not_recorded(tmp_path: Path) -> None:
    said = await answer(policy(tmp_path), ANSWER, SessionContext("s"))
    assert said == {
        "systemMessage": "Nothing was recorded: the cassette must be configured for BeforeModel as well."
    }


async def test_an_answer_that_broke_off_is_not_recorded(tmp_path: Path) -> None:
    session = SessionContext("s")
    await ask(policy(tmp_path), BODY, session)
    said = await answer(policy(tmp_path), {"candidates": [{"content": {"parts": [{"text": "do"}]}}]}, session)
    assert said == {"systemMessage": "Nothing was recorded: the answer is incomplete."}
    assert on_tape(tmp_path) == []


async def test_a_blocked_prompt_is_an_answer_too(tmp_path: Path) -> None:
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}}
    assert (await record(tmp_path, said=blocked))["answer"] == blocked


async def test_a_cassette_that_is_not_shown_all_there_is_says_so(tmp_path: Path) -> None:
    session, cassette = SessionContext("s"), policy(tmp_path)
    with pytest.raises(ValueError, match='remove its "view"'):
        await cassette({"hook_event_name": "BeforeModel", "llm_request": show_request("m", BODY)}, session)
    await ask(cassette, BODY, session)
    with pytest.raises(ValueError, match='remove its "view"'):
        await cassette({"hook_event_name": "AfterModel", "llm_response": show_response(ANSWER)}, session)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("{", "is not JSON"),
        ("[]", "must contain an `answer` object"),
        ('{"answer": 5}', "must contain an `answer` object"),
    ],
    ids=["no JSON", "a list", "no answer"],
)
async def test_a_file_that_is_not_a_recording_is_reported(tmp_path: Path, text: str, wrong: str) -> None:
    await record(tmp_path)
    [file] = on_tape(tmp_path)
    file.write_text(text)
    with pytest.raises(ValueError, match=rf"{file.name}: {wrong}.*; fix or delete the file"):
        await ask(policy(tmp_path, redact=False), BODY)


# ---- what is masked

MAIL = "anna.smith@example.com"


def telling(text: str) -> Json:
    call = {
        "functionCall": {"name": "send", "args": {"name": text, "to": [text]}},
        "thoughtSignature": "c2ln",
    }
    content = {"role": "model", "parts": [{"text": f"to {text}"}, call]}
    return {"candidates": [{"content": content, "finishReason": "STOP"}], "responseId": "r-1"}


async def test_what_is_recorded_is_masked(tmp_path: Path) -> None:
    asked = changed("contents", 2, "parts", 0, to={"text": f"{'x' * 190} {MAIL}"})
    recording = await record(tmp_path, asked, telling(MAIL), redact=True)
    assert recording["answer"] == telling("[EMAIL]")
    # The mask comes before the cut, or half an address would be kept.
    assert recording["request"]["last"] == f"{'x' * 190} [EMAIL]"


async def test_a_masked_conversation_continues_when_it_is_replayed(tmp_path: Path) -> None:
    asked = [{"role": "user", "parts": [{"text": "hi"}]}, telling(MAIL)["candidates"][0]["content"]]
    await record(tmp_path, {"contents": asked}, redact=True)
    again = [asked[0], telling("[EMAIL]")["candidates"][0]["content"]]
    assert replayed(await ask(policy(tmp_path, mode="replay"), {"contents": again})) == ANSWER


async def test_masking_can_be_switched_off(tmp_path: Path) -> None:
    assert (await record(tmp_path, said=telling(MAIL), redact=False))["answer"] == telling(MAIL)


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"mode": "rewind"}, "mode"),
        ({"ignore": ["contents"]}, r"ignore\.0"),
        ({"blank": ["(?=x)"]}, r"blank\.0: is not a valid RE2 pattern"),
        ({"folder": ""}, "folder"),
    ],
    ids=["mode", "pointer", "pattern", "folder"],
)
def test_wrong_options_are_reported_with_their_place(tmp_path: Path, options: Json, place: str) -> None:
    with pytest.raises(ValueError, match=place):
        cassette_policy(options, PolicyEnvironment(tmp_path))
