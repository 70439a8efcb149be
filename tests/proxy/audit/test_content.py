"""The content of calls is stored only if configured, and without what a policy removed."""

import asyncio
import base64
import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.bodies.chat import MODEL, chunk, sse
from support.gateway.audits import audited_gateway, reading, report_of
from support.gateway.life import until
from support.gateway.loopback import running_upstream, runs, says
from support.hooks.builtins import SENSITIVE
from support.programs.program import run
from support.wire import SSE, STREAM, STREAM_HEAD, UNARY, ask, connected, peer, post, prompt

from hookgate.hooks import SessionContext
from hookgate.proxy.admin.call_content import hook_changes
from hookgate.proxy.audit.content import Contents
from hookgate.proxy.audit.reading import CallDetail
from hookgate.proxy.audit.verifying import verify_lines
from hookgate.proxy.config import Config, StreamSettings
from hookgate.proxy.replay.recordings import RecordedStart, read_export

EMAIL = "jane.doe@example.com"
WORD = "project-falcon"
INTERACTIONS = "/v1beta/interactions"


def asks(text: str) -> dict[str, Any]:
    return prompt(text)


async def recorded_call(
    body: dict[str, Any],
    state: Path,
    hooks: dict[str, Any],
    content: str,
    path: str = UNARY,
    *,
    script: Any = None,
) -> tuple[CallDetail, Any]:
    """What is recorded of one call, and the answer it got."""
    async with (
        running_upstream(script) as (upstream, _),
        audited_gateway(upstream, state, hooks, content=content) as gateway,
    ):
        answer = await post(gateway.url, path, body)
    assert report_of(state).problems == []
    with reading(state) as audit:
        detail = audit.call(answer.headers["x-hookgate-receipt"])
    assert detail is not None
    return detail, answer


def contents(detail: CallDetail) -> tuple[Any, Any]:
    assert detail.start is not None
    assert detail.end is not None
    return detail.start.content, detail.end.content


def all_of(detail: CallDetail) -> str:
    assert detail.start is not None
    assert detail.end is not None
    records = [detail.start.record.document(), detail.end.record.document()]
    return json.dumps([*records, *contents(detail)])


async def test_by_default_nothing_is(tmp_path: Path) -> None:
    detail, _ = await recorded_call(asks(WORD), tmp_path, {}, "off")
    assert contents(detail) == (None, None)
    assert WORD not in all_of(detail)


@pytest.mark.parametrize("content", ["full", "redacted"])
async def test_a_body_that_nests_as_deeply_as_the_gateway_takes_can_be_read_again(
    content: str, tmp_path: Path
) -> None:
    """A record puts levels of its own around it."""
    value: Any = "x"
    for _ in range(99):
        value = [value]
    body = {**asks("hi"), "odd": value}
    detail, answer = await recorded_call(body, tmp_path, {}, content)
    assert answer.status == 200
    assert contents(detail)[0] == {"request": body}
    exported = tmp_path / "export.jsonl"
    exported.write_text((await run("audit", "export", "--state", str(tmp_path))).out)
    assert verify_lines(exported.read_bytes().splitlines(), lambda done: None).problems == []
    start, _ = read_export(exported, lambda size: None)
    assert isinstance(start, RecordedStart)
    assert start.request == body


@pytest.mark.parametrize("path", [UNARY, SSE], ids=["unary", "stream"])
async def test_all_of_a_call(path: str, tmp_path: Path) -> None:
    edit = prompt("edited")
    hooks = {"BeforeModel": [says(llm_request={"messages": [{"role": "user", "content": "edited"}]})]}
    detail, answer = await recorded_call(asks("hi"), tmp_path, hooks, "full", path)
    start, end = contents(detail)
    assert start == {"request": asks("hi")}
    assert end["sent"] == edit
    said = "".join(part["text"] for part in end["answer"]["candidates"][0]["content"]["parts"])
    assert said == "You said: edited"
    assert end["given"] is None
    [reported] = end["edits"]
    assert (reported["event"], reported["mode"]) == ("BeforeModel", "enforce")
    assert "edited" in json.dumps(reported["edit"])
    assert answer.status == 200


async def test_callers_take_turns_and_ends_keep_no_start_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call waits for the content of its start, which may take long to mask."""
    made, free, masks = list[str](), threading.Event(), Contents("full")

    def make(_: Contents, __: Any, record: Any) -> None:
        free.wait()
        made.append(record.session.key)

    monkeypatch.setattr(Contents, "_safely", make)

    def record(key: str, number: int = 0) -> Any:
        return SimpleNamespace(content={}, session=SessionContext(f"s-{number}", key=key))

    for number in range(20):
        masks.when_ended(record("ends", number), list[Any]().append)
    starts = [
        asyncio.create_task(masks.at_start(record(key, number), hooks_running=False))
        for key, number in (*(("many", number) for number in range(20)), ("one", 0))
    ]
    await asyncio.sleep(0)
    free.set()
    await asyncio.gather(*starts)
    await asyncio.to_thread(masks.close)
    assert [key for key in made if key != "ends"].index("one") <= 2
    assert made.count("ends") == 20


async def test_an_interaction_that_is_read_as_a_stream(tmp_path: Path) -> None:
    async with (
        running_upstream() as (upstream, _),
        audited_gateway(upstream, tmp_path, {"AfterModel": [says()]}, content="full") as gateway,
    ):
        created = await post(gateway.url, INTERACTIONS, {"model": "gemini-2.5-flash", "input": "hi"})
        answer = await ask(gateway.url, "GET", f"{INTERACTIONS}/{created.json['id']}?stream=true")
    with reading(tmp_path) as audit:
        detail = audit.call(answer.headers["x-hookgate-receipt"])
    assert detail is not None
    [part] = contents(detail)[1]["answer"]["candidates"][0]["content"]["parts"]
    assert part["text"] == "You said: hi"


async def test_a_tool_selection_is_a_change_of_its_hook(tmp_path: Path) -> None:
    body = {**asks("hi"), "tools": [{"functionDeclarations": [{"name": "read"}, {"name": "write"}]}]}
    hooks = {"BeforeToolSelection": [says(tools=["read"], toolConfig={"mode": "ANY"})]}
    detail, _ = await recorded_call(body, tmp_path, hooks, "full")
    start, end = contents(detail)
    [change] = hook_changes({**start, **end}, "gemini-2.5-flash", streamed=False)
    assert change["event"] == "BeforeToolSelection"
    assert change["before"] == {"toolConfig": None, "tools": ["read", "write"]}
    assert change["after"] == {"toolConfig": {"mode": "ANY"}, "tools": ["read"]}


async def test_what_the_client_got_when_it_is_another_thing(tmp_path: Path) -> None:
    hooks = {"AfterModel": [says({"decision": "deny", "reason": "not that"})]}
    detail, _ = await recorded_call(asks("hi"), tmp_path, hooks, "full")
    _, end = contents(detail)
    assert "You said: hi" in json.dumps(end["answer"])
    assert "not that" in json.dumps(end["given"])
    assert end["sent"] is None


async def test_a_denied_call_has_its_request(tmp_path: Path) -> None:
    hooks = {"BeforeModel": [says({"decision": "deny", "reason": "no"})]}
    detail, _ = await recorded_call(asks("hi"), tmp_path, hooks, "full")
    start, end = contents(detail)
    assert (start, end["answer"]) == ({"request": asks("hi")}, None)


@pytest.mark.parametrize("path", [UNARY, SSE], ids=["unary", "stream"])
async def test_what_looks_like_personal_data_is_masked(path: str, tmp_path: Path) -> None:
    detail, answer = await recorded_call(asks(f"write to {EMAIL}"), tmp_path, {}, "redacted", path)
    start, end = contents(detail)
    assert EMAIL.encode() in answer.body
    assert EMAIL not in all_of(detail)
    assert start["request"] == asks("write to [EMAIL]")
    assert "[EMAIL]" in json.dumps(end["answer"])


@pytest.mark.parametrize("action", ["pseudonymise", "mask", "block"])
async def test_content_that_a_policy_removed_is_not_stored(action: str, tmp_path: Path) -> None:
    """Words of one's own are none that the audit would find."""
    options = {"words": {"CODENAME": [WORD]}, "action": action}
    policy = {"type": "builtin", "name": "no-names", "builtin": "redact", "options": options}
    hooks = {"BeforeModel": [policy], "AfterModel": [policy]}
    detail, answer = await recorded_call(asks(f"tell of {WORD}"), tmp_path, hooks, "redacted")
    assert WORD not in all_of(detail)
    assert (WORD.encode() in answer.body) == (action == "pseudonymise")


@pytest.mark.parametrize("path", [UNARY, SSE], ids=["unary", "stream"])
async def test_content_that_a_policy_removed_and_restored_for_the_client_is_not_stored(
    path: str, tmp_path: Path
) -> None:
    options = {"words": {"CODENAME": [WORD]}, "action": "pseudonymise"}
    hooks = {"AfterModel": [{"type": "builtin", "name": "no-names", "builtin": "redact", "options": options}]}
    script = {"rules": [{"answer": {"text": f"It is {WORD}."}}]}
    detail, answer = await recorded_call(asks("say it"), tmp_path, hooks, "redacted", path, script=script)
    assert WORD.encode() in answer.body
    assert WORD not in all_of(detail)
    _, end = contents(detail)
    assert list(end["answer"]) == ["left_out"]


@pytest.mark.parametrize("content", ["full", "redacted"])
async def test_a_stream_that_begins_while_hooks_run_has_what_the_policy_let_through_in_its_end(
    content: str, tmp_path: Path
) -> None:
    began = asyncio.Event()

    async def think(_: Any) -> None:
        await began.wait()

    options = {"words": {"CODENAME": [WORD]}, "action": "mask"}
    policy = {"type": "builtin", "name": "no-names", "builtin": "redact", "options": options}
    config = Config(streams=StreamSettings(header_timeout=0.05, keep_alive=0.05))
    hooks = {"BeforeModel": [runs(think), policy], "AfterModel": [policy]}
    async with (
        running_upstream() as (upstream, _),
        audited_gateway(upstream, tmp_path, hooks, config=config, content=content) as gateway,
        connected(gateway.url) as wire,
    ):
        await wire.post(SSE, asks(f"tell of {WORD}"))
        with reading(tmp_path) as audit:
            await until(audit.running)
            began.set()
            await wire.answer()
            await until(lambda: bool(audit.calls()))
            [call] = audit.calls()
            detail = audit.call(call.id)
    assert detail is not None
    start, end = contents(detail)
    if content == "full":
        assert start == {"request": asks(f"tell of {WORD}")}
        assert "request" not in end
    else:
        assert start is None
        assert end["request"] == asks("tell of [CODENAME]")
        assert WORD not in all_of(detail)
    assert report_of(tmp_path).problems == []


EVENT = "/s/s1/hookgate/v1/events/AfterTool"


@pytest.mark.parametrize(
    ("content", "hooks", "stored"),
    [
        pytest.param("full", {}, {"input": {"tool_response": {"llmContent": EMAIL}}}, id="full"),
        pytest.param("redacted", {}, {"input": {"tool_response": {"llmContent": "[EMAIL]"}}}, id="redacted"),
        pytest.param(
            "redacted",
            {"AfterTool": [{"type": "builtin", "builtin": "redact", "options": SENSITIVE}]},
            {"input": None},
            id="under a policy",
        ),
    ],
)
async def test_an_event_of_a_shim(content: str, hooks: Any, stored: Any, tmp_path: Path) -> None:
    body = {"tool_name": "read", "tool_input": {}, "tool_response": {"llmContent": EMAIL}}
    async with (
        running_upstream() as (upstream, _),
        audited_gateway(upstream, tmp_path, hooks, content=content) as gateway,
    ):
        answer = await post(gateway.url, EVENT, body)
    with reading(tmp_path) as audit:
        detail = audit.call(answer.headers["x-hookgate-receipt"])
    assert detail is not None
    assert detail.end is not None
    kept: Any = detail.end.content
    given = kept["input"] and {"tool_response": kept["input"]["tool_response"]}
    assert {"input": given} == stored
    assert EMAIL not in json.dumps(kept) or content == "full"


async def test_redacted_content_covers_what_the_policy_covers(tmp_path: Path) -> None:
    """Also text in two parts, a file that is text, and fields beside the turns."""
    file = {"inlineData": {"mimeType": "image/svg+xml", "data": base64.b64encode(EMAIL.encode()).decode()}}
    parts = [{"text": f"write to {EMAIL[:6]}"}, {"text": EMAIL[6:]}, file]
    body = {"contents": [{"role": "user", "parts": parts}], "labels": {"owner": EMAIL}}
    detail, _ = await recorded_call(body, tmp_path, {}, "redacted")
    assert detail.start is not None
    request = detail.start.content["request"]
    first, second, data = request["contents"][0]["parts"]
    assert (first["text"], second["text"]) == ("write to [EMAIL]", "")
    assert base64.b64decode(data["inlineData"]["data"]) == b"[EMAIL]"
    assert request["labels"] == {"owner": "[EMAIL]"}


@pytest.mark.parametrize("path", [UNARY, SSE, STREAM], ids=["whole", "events", "array"])
async def test_a_denied_call_has_the_error_that_its_client_got(path: str, tmp_path: Path) -> None:
    hooks = {"BeforeModel": [says({"decision": "deny", "reason": "not that"})]}
    detail, answer = await recorded_call(asks("hi"), tmp_path, hooks, "full", path)
    _, end = contents(detail)
    assert answer.status == 403
    assert end["given"]["error"]["message"] == "not that"


# ---- the dialects


CHAT, RESPONSES = "/v1beta/openai/chat/completions", "/v1beta/openai/responses"


def chat(text: str, **fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], **fields}


def with_input(text: str, **fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "input": text, **fields}


DIALECTS = pytest.mark.parametrize(
    ("path", "asked"), [(CHAT, chat), (RESPONSES, with_input), (INTERACTIONS, with_input)]
)
STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
SPLIT = {"rules": [{"answer": {"chunks": [f"write to {EMAIL[:8]}", f"{EMAIL[8:]} soon"]}}]}


@DIALECTS
@STREAMS
async def test_content_of_every_dialect_is_masked(
    path: str, asked: Any, stream: bool, tmp_path: Path
) -> None:
    body = asked(f"write to {EMAIL}", stream=stream)
    detail, answer = await recorded_call(body, tmp_path, {}, "redacted", path, script=SPLIT)
    start, end = contents(detail)
    assert answer.status == 200
    assert EMAIL not in all_of(detail)
    assert start["request"] == asked("write to [EMAIL]", stream=stream)
    said = "".join(part["text"] for part in end["answer"]["candidates"][0]["content"]["parts"])
    assert said == "write to [EMAIL] soon"


@DIALECTS
@STREAMS
async def test_content_of_every_dialect_is_what_a_policy_let_through(
    path: str, asked: Any, stream: bool, tmp_path: Path
) -> None:
    options = {"words": {"CODENAME": [WORD]}, "action": "mask"}
    policy = {"type": "builtin", "name": "no-names", "builtin": "redact", "options": options}
    hooks = {"BeforeModel": [policy], "AfterModel": [policy]}
    script = {"rules": [{"answer": {"text": f"It is {WORD}."}}]}
    body = asked(f"tell of {WORD}", stream=stream)
    detail, answer = await recorded_call(body, tmp_path, hooks, "redacted", path, script=script)
    start, end = contents(detail)
    assert answer.status == 200
    assert WORD not in all_of(detail)
    assert "tell of [CODENAME]" in json.dumps(start["request"])
    assert "It is [CODENAME]." in json.dumps(end["answer"])


async def test_fields_beside_the_messages_of_a_chat_completion_are_masked(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": f"write to {EMAIL[:6]}"}, {"type": "text", "text": EMAIL[6:]}]
    function = {"name": "send", "description": EMAIL}
    call = {"id": "c1", "type": "function", "function": {"name": "send", "arguments": f'{{"to": "{EMAIL}"}}'}}
    messages = [
        {"role": "system", "content": EMAIL},
        {"role": "user", "content": parts},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": EMAIL},
    ]
    tools = [{"type": "function", "function": function}]
    body = {"model": MODEL, "messages": messages, "tools": tools, "metadata": {"owner": EMAIL}}
    detail, answer = await recorded_call(body, tmp_path, {}, "redacted", CHAT)
    start, _ = contents(detail)
    assert answer.status == 200
    assert EMAIL not in all_of(detail)
    assert start["request"]["metadata"] == {"owner": "[EMAIL]"}
    assert [each["text"] for each in start["request"]["messages"][1]["content"]] == ["write to [EMAIL]", ""]


async def test_an_interaction_that_is_read_again_is_masked(tmp_path: Path) -> None:
    async with (
        running_upstream(SPLIT) as (upstream, _),
        audited_gateway(upstream, tmp_path, {"AfterModel": [says()]}, content="redacted") as gateway,
    ):
        created = await post(gateway.url, INTERACTIONS, with_input("hi"))
        answers = [
            await ask(gateway.url, "GET", f"{INTERACTIONS}/{created.json['id']}{query}")
            for query in ("", "?stream=true")
        ]
    for answer in answers:
        with reading(tmp_path) as audit:
            detail = audit.call(answer.headers["x-hookgate-receipt"])
        assert detail is not None
        assert EMAIL not in all_of(detail)
        assert "write to [EMAIL] soon" in json.dumps(contents(detail)[1]["answer"])


@DIALECTS
async def test_what_hooks_could_not_judge_is_left_out(path: str, asked: Any, tmp_path: Path) -> None:
    body = {**asked("hi"), "contents": [EMAIL[:6], EMAIL[6:]]}
    detail, answer = await recorded_call(body, tmp_path, {}, "redacted", path)
    start, end = contents(detail)
    assert answer.status == 400
    assert list(start["request"]) == ["left_out"]
    assert end["given"]["error"]["status"] == "INVALID_ARGUMENT"


@pytest.mark.parametrize(("content", "kept"), [("full", "unreadable"), ("redacted", "left_out")])
async def test_a_stream_that_could_not_be_read_is_not_stored_in_pieces(
    content: str, kept: str, tmp_path: Path
) -> None:
    pieces = [chunk({"content": EMAIL[:6]}), chunk({"content": EMAIL[6:], "function_call": {"name": "f"}})]
    async with (
        peer(STREAM_HEAD, sse(pieces)) as upstream,
        audited_gateway(upstream.url, tmp_path, {"AfterModel": [says()]}, content=content) as gateway,
    ):
        answer = await post(gateway.url, CHAT, chat("hi", stream=True))
    with reading(tmp_path) as audit:
        detail = audit.call(answer.headers["x-hookgate-receipt"])
    assert detail is not None
    assert list(contents(detail)[1]["answer"]) == [kept]


@pytest.mark.parametrize("content", ["full", "redacted"])
async def test_the_answer_to_embeddings_and_counts_is_content_as_well(content: str, tmp_path: Path) -> None:
    path, body = "/v1beta/models/text-embedding-004:embedContent", {"content": {"parts": [{"text": "hi"}]}}
    detail, answer = await recorded_call(body, tmp_path, {"BeforeModel": [says()]}, content, path)
    start, end = contents(detail)
    assert answer.status == 200
    if content == "full":
        assert start["request"] == body
        assert (end["answer"], end["given"]) == (answer.json, None)
    else:
        assert "hi" not in json.dumps([start, end])
        assert (end or {}).get("answer") is None
