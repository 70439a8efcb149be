"""Token counts, embeddings and caches: their texts are judged like prompts, in every form."""

import json
from typing import Any

import pytest
from support.gateway.loopback import gateway_before, listens, runs, says
from support.gateway.routes import PLACE
from support.hooks.policies import CARD, REDACTED, REFUSAL, answer_itself
from support.wire import ok, peer, post

from hookgate.proxy.config import Config

MODEL = "/v1beta/models/gemini-embedding-001"
GOOGLE = f"{PLACE}/publishers/google/models/gemini-embedding-001"


def content(text: str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"text": text}]}


def batch(item: dict[str, Any], **beside: Any) -> dict[str, Any]:
    items = [{"request": item, **beside}]
    return {"batch": {"inputConfig": {"requests": {"requests": items}}}}


SHAPES: dict[str, tuple[str, Any]] = {
    "count": (f"{MODEL}:countTokens", lambda text: {"contents": [content(text)]}),
    "count of a whole request": (
        f"{MODEL}:countTokens",
        lambda text: {
            "generateContentRequest": {
                "model": "models/gemini-embedding-001",
                "systemInstruction": {"parts": [{"text": text}]},
                "contents": [content("hi")],
            }
        },
    ),
    "Vertex count": (
        f"{GOOGLE}:countTokens",
        lambda text: {"contents": [content("hi")], "system_instruction": {"parts": [{"text": text}]}},
    ),
    "Vertex tokens": (f"{GOOGLE}:computeTokens", lambda text: {"contents": [content(text)]}),
    "Code Assist count": (
        "/v1internal:countTokens",
        lambda text: {"request": {"model": "models/gemini-embedding-001", "contents": [content(text)]}},
    ),
    "embedding": (f"{MODEL}:embedContent", lambda text: {"content": content(text), "taskType": "FACT"}),
    "title": (f"{MODEL}:embedContent", lambda text: {"title": text, "content": content("hi")}),
    "role of the model": (
        f"{MODEL}:embedContent",
        lambda text: {"content": {"parts": [{"text": text}], "role": "model"}},
    ),
    "Vertex embedding": (
        f"{GOOGLE}:embedContent",
        lambda text: {"content": content("hi"), "embedContentConfig": {"title": text, "autoTruncate": True}},
    ),
    "embeddings": (
        f"{MODEL}:batchEmbedContents",
        lambda text: {
            "requests": [
                {"model": "models/gemini-embedding-001", "content": content("hi")},
                {"model": "models/gemini-embedding-001", "content": content(text)},
            ]
        },
    ),
    "Vertex embeddings": (
        f"{GOOGLE}:batchEmbedContents",
        lambda text: {"requests": [{"content": content(text)}]},
    ),
    "embedding batch": (f"{MODEL}:asyncBatchEmbedContent", lambda text: batch({"content": content(text)})),
    "cache": (
        "/v1beta/cachedContents",
        lambda text: {"model": "models/gemini-embedding-001", "contents": [content(text)], "ttl": "60s"},
    ),
    "instruction of a cache": (
        f"{PLACE}/cachedContents",
        lambda text: {
            "model": f"{GOOGLE.removeprefix('/v1beta1/')}",
            "system_instruction": {"parts": [{"text": text}]},
            "encryptionSpec": {"kmsKeyName": "projects/p/locations/l/keyRings/r/cryptoKeys/k"},
        },
    ),
    "name of a cache": (
        "/v1beta/cachedContents",
        lambda text: {
            "displayName": text,
            "model": "gemini-embedding-001",
            "contents": [content("hi")],
        },
    ),
    "its metadata": (
        f"{MODEL}:asyncBatchEmbedContent",
        lambda text: batch({"content": content("hi")}, metadata={"key": [text]}),
    ),
    "a batch's metadata": (
        f"{MODEL}:batchGenerateContent",
        lambda text: batch({"contents": [content("hi")]}, metadata={"key": [text]}),
    ),
    "a batch's name": (
        f"{MODEL}:batchGenerateContent",
        lambda text: {"batch": {**batch({"contents": [content("hi")]})["batch"], "display_name": text}},
    ),
}


def operation_of(target: str) -> str:
    return "createCachedContent" if target.endswith("/cachedContents") else target.rpartition(":")[2]


shapes = pytest.mark.parametrize(("target", "body"), SHAPES.values(), ids=SHAPES)


def no_rocket_anywhere(event: dict[str, Any]) -> dict[str, Any] | None:
    said = any("rocket" in message["content"] for message in event["llm_request"]["messages"])
    return {"decision": "deny", "reason": REFUSAL} if said else None


def mask(event: dict[str, Any]) -> dict[str, Any]:
    """A hook that edits messages, as the documents describe it."""
    messages = event["llm_request"]["messages"]
    for message in messages:
        message["content"] = message["content"].replace(CARD, REDACTED)
    return {"hookSpecificOutput": {"llm_request": {"messages": messages}}}


REDACT = {"type": "builtin", "builtin": "redact", "options": {"words": {"CARD": [CARD]}}}


@shapes
async def test_what_is_forbidden_reaches_no_upstream(target: str, body: Any) -> None:
    async with (
        peer() as upstream,
        gateway_before(upstream.url, {"BeforeModel": [runs(no_rocket_anywhere)]}) as url,
    ):
        answer = await post(url, target, body("a rocket"))
    assert (answer.status, upstream.heard) == (403, [])
    assert answer.error["message"].endswith(REFUSAL)
    assert answer.error["details"][0]["reason"] == "POLICY_DENIED"


@shapes
@pytest.mark.parametrize("hook", [runs(mask), REDACT], ids=["messages", "redact"])
async def test_an_edit_lands_in_its_place_and_the_rest_stays(target: str, body: Any, hook: Any) -> None:
    async with peer(ok(b"{}")) as upstream, gateway_before(upstream.url, {"BeforeModel": [hook]}) as url:
        assert (await post(url, target, body(f"my {CARD}"))).status == 200
        sent = upstream.heard[0].partition(b"\r\n\r\n")[2].decode()
    assert CARD not in sent
    masked = REDACTED if hook is not REDACT else "[CARD]"
    assert json.loads(sent) == body(f"my {masked}")


@shapes
async def test_a_body_that_no_hook_changes_is_forwarded_unchanged(target: str, body: Any) -> None:
    hooks = {event: [listens([])] for event in ("BeforeModel", "AfterModel", "BeforeToolSelection")}
    async with peer(ok(b'{"totalTokens":3}')) as upstream, gateway_before(upstream.url, hooks) as url:
        answer = await post(url, target, body("hi"))
        sent = upstream.heard[0]
    assert (answer.status, answer.body) == (200, b'{"totalTokens":3}')
    assert sent.split(b" ", 2)[1].decode() == target
    assert sent.partition(b"\r\n\r\n")[2] == json.dumps(body("hi"), separators=(",", ":")).encode()


@shapes
async def test_only_the_hooks_before_the_model_run(target: str, body: Any) -> None:
    seen: list[dict[str, Any]] = []
    hooks = {event: [listens(seen)] for event in ("BeforeModel", "AfterModel", "BeforeToolSelection")}
    if "batchGenerateContent" in target:
        return  # its requests generate
    async with peer(ok(b"{}")) as upstream, gateway_before(upstream.url, hooks) as url:
        await post(url, target, body("hi"))
    assert {event["hook_event_name"] for event in seen} == {"BeforeModel"}
    assert {event["operation"] for event in seen} == {operation_of(target)}
    assert {event["llm_request"]["model"] for event in seen} == {"gemini-embedding-001"}


@shapes
@pytest.mark.parametrize(
    "hook",
    [runs(answer_itself), says({"continue": False, "stopReason": "enough"})],
    ids=["an answer of its own", "a stop"],
)
async def test_what_cannot_be_reported_there_refuses_the_call(target: str, body: Any, hook: Any) -> None:
    async with peer() as upstream, gateway_before(upstream.url, {"BeforeModel": [hook]}) as url:
        answer = await post(url, target, body("hi"))
    assert (answer.status, upstream.heard) == (403, [])
    assert "synthetic answer" in answer.error["message"] or "enough" in answer.error["message"]


async def test_a_denied_count_of_a_tools_result_is_an_error_too() -> None:
    result = {"functionResponse": {"name": "f", "response": {"output": "a rocket"}}}
    body = {"contents": [{"role": "user", "parts": [result]}]}
    async with (
        peer() as upstream,
        gateway_before(upstream.url, {"BeforeModel": [says({"decision": "deny", "reason": "no"})]}) as url,
    ):
        answer = await post(url, f"{MODEL}:countTokens", body)
    assert (answer.status, answer.error["message"], upstream.heard) == (403, "no", [])


# ---- models


MODELS = {"type": "builtin", "builtin": "models", "options": {"rename": {"gemini-embedding-001": "other"}}}


@shapes
async def test_a_renamed_model_is_named_everywhere(target: str, body: Any) -> None:
    async with peer(ok(b"{}")) as upstream, gateway_before(upstream.url, {"BeforeModel": [MODELS]}) as url:
        assert (await post(url, target, body("hi"))).status == 200
    assert b"gemini-embedding-001" not in upstream.heard[0]
    assert b"other" in upstream.heard[0]


async def test_hooks_send_an_embedding_batch_to_one_model_only() -> None:
    def rename(event: dict[str, Any]) -> Any:
        text = event["llm_request"]["messages"][-1]["content"]
        return {"hookSpecificOutput": {"llm_request": {"model": f"model-{text}"}}}

    items = [{"model": "models/gemini-embedding-001", "content": content(text)} for text in "ab"]
    hooks = {"BeforeModel": [runs(rename)]}
    async with peer() as upstream, gateway_before(upstream.url, hooks) as url:
        answer = await post(url, f"{MODEL}:batchEmbedContents", {"requests": items})
    assert (answer.status, upstream.heard) == (403, [])
    assert "more than one model for this call: model-a, model-b" in answer.error["message"]


async def test_nothing_is_counted_in_a_session_that_was_stopped() -> None:
    hooks = {"AfterTool": [runs(lambda _: {"continue": False, "stopReason": "enough"})]}
    async with peer() as upstream, gateway_before(upstream.url, hooks) as url:
        fields = {"tool_name": "t", "tool_input": {}, "tool_response": {}}
        await post(url, "/s/s-1/hookgate/v1/events/AfterTool", fields)
        answer = await post(url, f"/s/s-1{MODEL}:countTokens", {"contents": [content("hi")]})
    assert answer.status == 403
    assert "enough" in answer.error["message"]
    assert upstream.heard == []


OTHER = {"model": "models/forbidden"}


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("generateContent", {**OTHER, "contents": [content("hi")]}),
        ("countTokens", {**OTHER, "contents": [content("hi")]}),
        ("countTokens", {"generateContentRequest": {**OTHER, "contents": [content("hi")]}}),
        ("countTokens", {**OTHER, "generateContentRequest": {"contents": [content("hi")]}}),
        ("embedContent", {**OTHER, "content": content("hi")}),
        ("embedContent", {"model": "tunedModels/gemini-embedding-001", "content": content("hi")}),
        ("embedContent", {"model": ["models/forbidden"], "content": content("hi")}),
        ("batchEmbedContents", {"requests": [{**OTHER, "content": content("hi")}]}),
        ("asyncBatchEmbedContent", batch({**OTHER, "content": content("hi")})),
        ("asyncBatchEmbedContent", {"batch": {**OTHER, **batch({"content": content("hi")})["batch"]}}),
        ("batchGenerateContent", batch({**OTHER, "contents": [content("hi")]})),
        ("batchGenerateContent", {"batch": {**OTHER, **batch({"contents": [content("hi")]})["batch"]}}),
    ],
)
async def test_a_body_that_names_another_model_than_its_path_is_refused(verb: str, body: Any) -> None:
    async with peer() as upstream, gateway_before(upstream.url, {"BeforeModel": [listens([])]}) as url:
        answer = await post(url, f"{MODEL}:{verb}", body)
    assert (answer.status, "must name the model" in answer.error["message"]) == (400, True)
    assert upstream.heard == []


@pytest.mark.parametrize(("model", "status"), [("gemini-embedding-001", 403), ("another", 200)])
async def test_hooks_are_chosen_by_the_model(model: str, status: int) -> None:
    hook = {**says({"decision": "deny", "reason": "no"}), "when": {"models": ["gemini-embedding-*"]}}
    async with peer(ok(b"{}")) as upstream, gateway_before(upstream.url, {"BeforeModel": [hook]}) as url:
        answer = await post(url, f"/v1beta/models/{model}:embedContent", {"content": content("hi")})
    assert answer.status == status


async def test_settings_of_a_generation_have_no_place_in_an_embedding() -> None:
    options = {"cap": {"maxOutputTokens": 10}, "set": {"temperature": 0}, "instruct": "Be brief."}
    hook = {"type": "builtin", "builtin": "models", "options": options}
    body = {"content": content("hi")}
    async with peer(ok(b"{}")) as upstream, gateway_before(upstream.url, {"BeforeModel": [hook]}) as url:
        assert (await post(url, f"{MODEL}:embedContent", body)).status == 200
    assert json.loads(upstream.heard[0].partition(b"\r\n\r\n")[2]) == body


async def test_an_edit_without_a_place_refuses_the_call() -> None:
    def add(event: dict[str, Any]) -> dict[str, Any]:
        messages = [*event["llm_request"]["messages"], {"role": "user", "content": "more"}]
        return {"hookSpecificOutput": {"llm_request": {"messages": messages}}}

    async with peer() as upstream, gateway_before(upstream.url, {"BeforeModel": [runs(add)]}) as url:
        answer = await post(url, f"{MODEL}:embedContent", {"content": content("hi")})
    assert (answer.status, upstream.heard) == (403, [])
    assert "cannot be sent with" in answer.error["message"]


# ---- what hooks cannot be shown


FILE = {"fileData": {"fileUri": "files/f"}}


@pytest.mark.parametrize(
    ("target", "body", "place"),
    [
        (f"{MODEL}:countTokens", {"contents": [], "note": "a rocket"}, "note"),
        (f"{MODEL}:countTokens", {"contents": [], "generateContentRequest": {}}, "contents"),
        (f"{GOOGLE}:countTokens", {"instances": [{"prompt": "a rocket"}]}, "instances"),
        (f"{GOOGLE}:computeTokens", {"instances": [{"prompt": "a rocket"}]}, "instances"),
        ("/v1internal:countTokens", {"request": {"contents": []}, "x": "a rocket"}, "x"),
        ("/v1internal:countTokens", {"request": {"contents": [], "model": "m/x y"}}, "model"),
        (f"{MODEL}:embedContent", {"content": content("hi"), "note": "a rocket"}, "note"),
        (f"{MODEL}:embedContent", {"content": "a rocket"}, "content"),
        (f"{MODEL}:embedContent", {"content": content("hi"), "taskType": "a rocket"}, "taskType"),
        (f"{MODEL}:embedContent", {"content": content("hi"), "title": {"a": "rocket"}}, "title"),
        (f"{MODEL}:embedContent", {"content": content("hi"), "outputDimensionality": "rocket"}, "output"),
        (f"{MODEL}:embedContent", {"content": content("hi"), "embedContentConfig": {"x": "rocket"}}, "x"),
        (f"{MODEL}:batchEmbedContents", {"requests": []}, ""),
        (f"{MODEL}:batchEmbedContents", {"requests": [{"content": content("hi"), "x": 1}]}, "requests[0].x"),
        (f"{MODEL}:batchEmbedContents", {"requests": [], "x": "a rocket"}, "x"),
        (f"{MODEL}:asyncBatchEmbedContent", {"content": content("a rocket")}, "content"),
        (f"{MODEL}:batchGenerateContent", {"contents": [content("a rocket")]}, "contents"),
        (
            f"{MODEL}:batchGenerateContent",
            {**batch({"contents": []}), "contents": [content("x")]},
            "contents",
        ),
        (f"{MODEL}:batchGenerateContent", {}, "batch"),
        (
            f"{MODEL}:batchGenerateContent",
            {"batch": {"inputConfig": {"requests": {"requests": "a rocket"}}}},
            "batch.inputConfig.requests.requests",
        ),
        (f"{MODEL}:generateContent", {"contents": [], "tools": "a rocket"}, "tools"),
        (f"{MODEL}:generateContent", {"contents": [], "toolConfig": "a rocket"}, "toolConfig"),
        (f"{MODEL}:generateContent", {"contents": [], "generation_config": ["a rocket"]}, "generationConfig"),
        (f"{MODEL}:batchGenerateContent", {"batch": {**batch({})["batch"], "x": "rocket"}}, "batch.x"),
        (
            f"{MODEL}:batchGenerateContent",
            {"batch": {**batch({})["batch"], "priority": "rocket"}},
            "priority",
        ),
        (
            f"{MODEL}:batchGenerateContent",
            {"batch": {**batch({})["batch"], "webhookConfig": {"uris": ["https://x.example"]}}},
            "batch.webhookConfig",
        ),
        (f"{MODEL}:batchGenerateContent", batch({"contents": []}, note="a rocket"), "requests[0].note"),
    ],
)
async def test_a_field_that_no_hook_would_see_is_refused(target: str, body: Any, place: str) -> None:
    async with peer() as upstream, gateway_before(upstream.url, {"BeforeModel": [listens([])]}) as url:
        answer = await post(url, target, body)
    assert (answer.status, upstream.heard) == (400, [])
    assert place in answer.error["message"]


@pytest.mark.parametrize("name", ["fileName", "file_name"])
async def test_embeddings_in_a_file_are_refused(name: str) -> None:
    body = {"batch": {"inputConfig": {name: "files/f"}}}
    async with peer() as upstream, gateway_before(upstream.url, {"BeforeModel": [listens([])]}) as url:
        answer = await post(url, f"{MODEL}:asyncBatchEmbedContent", body)
    assert (answer.status, upstream.heard) == (403, [])


@pytest.mark.parametrize(
    ("verb", "body", "place"),
    [
        ("generateContent", {"contents": [{"parts": [FILE]}]}, "contents[0].parts[0].fileData"),
        ("generateContent", {"contents": {"parts": FILE}}, "contents[0].parts[0].fileData"),
        (
            "streamGenerateContent",
            {"contents": [{"parts": [{"file_data": {"file_uri": "gs://b/f"}}]}]},
            "contents[0].parts[0].fileData",
        ),
        (
            "generateContent",
            {"contents": [{"parts": [{"function_response": {"name": "f", "parts": [FILE]}}]}]},
            "contents[0].parts[0].function_response.parts[0].fileData",
        ),
        (
            "generateContent",
            {"contents": [], "system_instruction": {"parts": [FILE]}},
            "systemInstruction.parts[0].fileData",
        ),
        ("generateContent", {"contents": [], "tools": [{"file_search": {"x": 1}}]}, "tools[0].fileSearch"),
        ("countTokens", {"contents": [{"parts": [FILE]}]}, "contents[0].parts[0].fileData"),
        ("embedContent", {"content": {"parts": [FILE]}}, "contents[0].parts[0].fileData"),
        ("batchGenerateContent", batch({"contents": [{"parts": [FILE]}]}), "contents[0].parts[0].fileData"),
    ],
)
async def test_a_reference_to_what_no_hook_has_seen_is_refused(verb: str, body: Any, place: str) -> None:
    target = f"{MODEL}:{verb}"
    through = Config.model_validate({"routes": {"files": "forward"}})
    hooks = {"BeforeModel": [listens([])]}
    async with peer(ok(b"{}")) as upstream:
        async with gateway_before(upstream.url, hooks) as url:
            answer = await post(url, target, body)
        assert (answer.status, upstream.heard) == (403, [])
        assert place in answer.error["message"]
        assert "in hookgate.toml" in answer.error["message"]
        async with gateway_before(upstream.url, hooks, through) as url:
            await post(url, target, body)
        assert len(upstream.heard) == 1


@shapes
async def test_a_hook_for_other_operations_does_not_run(target: str, body: Any) -> None:
    operation = operation_of(target)
    seen: list[dict[str, Any]] = []
    hooks = {
        "BeforeModel": [
            listens(seen) | {"when": {"operations": [f"{operation[:-3]}*"]}},
            runs(no_rocket_anywhere) | {"when": {"operations": ["generateContent", "streamGenerateContent"]}},
        ]
    }
    async with peer(ok(b"{}")) as upstream, gateway_before(upstream.url, hooks) as url:
        answer = await post(url, target, body("a rocket"))
    assert answer.status == 200
    assert {event["operation"] for event in seen} == {operation}
