"""Token counts and embeddings of google-genai are subject to the policies for prompts."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from google.genai import Client, types
from google.genai.errors import ClientError
from support.clients.python_sdk import python_client, sdk_warnings
from support.gateway.loopback import running_gateway
from support.hooks.builtins import SENSITIVE

pytestmark = [
    sdk_warnings,
    pytest.mark.filterwarnings("ignore:.*create_embeddings.*"),
]

MAIL = "ada@example.org"
MODEL = "gemini-embedding-001"

Call = Callable[[Client, str], Awaitable[Any]]


async def count(client: Client, text: str) -> Any:
    return await client.aio.models.count_tokens(model=MODEL, contents=[text, "more"])


async def embed(client: Client, text: str) -> Any:
    return await client.aio.models.embed_content(model=MODEL, contents=["more", text])


async def embed_with_title(client: Client, text: str) -> Any:
    config = types.EmbedContentConfig(title=text, task_type="RETRIEVAL_DOCUMENT", output_dimensionality=8)
    return await client.aio.models.embed_content(model=MODEL, contents="a document", config=config)


WAYS = pytest.mark.parametrize("call", [count, embed, embed_with_title])


@WAYS
async def test_a_redacted_text_reaches_the_upstream_without_what_it_held(call: Call) -> None:
    hooks = {"BeforeModel": [{"type": "builtin", "builtin": "redact", "options": SENSITIVE}]}
    async with running_gateway(hooks) as gateway, python_client(gateway.url) as client:
        assert await call(client, f"write to {MAIL} today")
        [sent] = gateway.recorded
    assert MAIL not in str(sent.body)
    assert "write to [EMAIL] today" in str(sent.body)


@WAYS
@pytest.mark.parametrize(
    ("builtin", "options", "reason"),
    [
        ("models", {"allow": ["gemini-2.5-*"]}, "is not allowed here"),
        ("redact", {"detect": ["EMAIL"], "actions": {"EMAIL": "block"}}, "EMAIL"),
    ],
)
async def test_a_denial_is_shown_after_one_request(
    call: Call, builtin: str, options: Any, reason: str
) -> None:
    hooks = {"BeforeModel": [{"type": "builtin", "builtin": builtin, "options": options}]}
    async with running_gateway(hooks) as gateway, python_client(gateway.url) as client:
        with pytest.raises(ClientError) as refusal:
            await call(client, f"write to {MAIL} today")
        assert not gateway.recorded
    assert (refusal.value.code, refusal.value.status) == (403, "PERMISSION_DENIED")
    assert reason in str(refusal.value.message)


@WAYS
async def test_a_limit_counts_them(call: Call) -> None:
    options = {"rules": [{"per": "key", "window": "day", "requests": 2}]}
    hooks = {"BeforeModel": [{"type": "builtin", "builtin": "limits", "options": options}]}
    async with running_gateway(hooks) as gateway, python_client(gateway.url) as client:
        await count(client, "hi")
        await count(client, "hi")
        with pytest.raises(ClientError, match="limit"):
            await call(client, "hi")


async def test_an_embedding_batch_is_judged() -> None:
    source = types.EmbeddingsBatchJobSource(
        inlined_requests=types.EmbedContentBatch(contents=["more", f"write to {MAIL} today"])
    )
    hooks = {
        "BeforeModel": [{"type": "builtin", "builtin": "redact", "options": {**SENSITIVE, "action": "block"}}]
    }
    async with running_gateway(hooks) as gateway, python_client(gateway.url) as client:
        with pytest.raises(ClientError, match=r"requests\[1\].request.*EMAIL"):
            await client.aio.batches.create_embeddings(model=MODEL, src=source)
        assert not gateway.recorded
