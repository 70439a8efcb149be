"""google-genai's and @google/genai's interactions behind the gateway: what an application relies on."""

from pathlib import Path
from typing import Any

import pytest
from support.clients.interactions_sdk import interact_with, text_of
from support.clients.node import run_script
from support.clients.python_sdk import MODEL, python_client, sdk_warnings
from support.gateway.loopback import gateway_before, running_gateway, running_upstream, runs
from support.hooks.policies import redact

from hookgate.proxy.config import Config, StoreSettings
from hookgate.proxy.sessions.interactions import KnownInteractions
from hookgate.proxy.store import Store

pytestmark = sdk_warnings

both = pytest.mark.parametrize("client", ["python", "node"])
ways = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def no_safe(event: Any) -> dict[str, str] | None:
    """AfterModel: deny an answer that speaks of what is safe."""
    return {"decision": "deny", "reason": "not this"} if "safe" in str(event["llm_response"]) else None


@both
async def test_a_denial_in_the_middle_of_a_stream_is_shown_as_text(client: str) -> None:
    slowly = {"rules": [{"answer": {"chunks": ["It is ", "safe."], "chunk_delay_ms": 100}}]}
    async with running_gateway({"AfterModel": [runs(no_safe, stream="event")]}, slowly) as gateway:
        printed = await interact_with(client, gateway.url, "the card?", stream=True)
    assert text_of(printed) == "It is not this"
    assert printed[-1] == {"status": "incomplete"}


REFUSES = Config.model_validate({"routes": {"unknown_interactions": "refuse"}})


@both
async def test_a_conversation_begins_in_the_background_and_goes_on(client: str, tmp_path: Path) -> None:
    seen: list[Any] = []
    hooks = {"BeforeModel": [runs(seen.append)], "AfterModel": [runs(redact)]}
    async with (
        running_upstream() as (upstream_url, _),
        Store(StoreSettings(), tmp_path) as store,
        gateway_before(
            upstream_url, hooks, REFUSES, interactions=KnownInteractions(store.interactions)
        ) as url,
    ):
        if client == "node":
            printed = (await run_script("interact.mjs", "background", url, "one")).lines
        else:
            printed = await _in_the_background(url, "one")
    assert printed[:4] == [
        *({"status": status} for status in ("in_progress", "in_progress", "completed")),
        {"text": "You said: one"},
    ]
    resumed = ["step.delta", "step.stop", "interaction.completed"]
    assert printed[4:-1] == [{"event": name} for name in resumed]
    assert printed[-1] == {"text": "You said: one"}
    assert [event["llm_request"].get("history") for event in seen] == [None, "known"]
    assert len({event["session_id"] for event in seen}) == 1


async def _in_the_background(base_url: str, prompt: str) -> list[Any]:
    printed: list[Any] = []
    asked: dict[str, Any] = {"model": MODEL, "input": prompt}
    async with python_client(base_url) as sdk:
        interactions = sdk.aio.interactions
        answer = await interactions.create(**asked, background=True)
        printed.append({"status": answer.status})
        while answer.status == "in_progress":
            answer = await interactions.get(answer.id)
            printed.append({"status": answer.status})
        printed.append({"text": answer.output_text})
        events = [event async for event in await interactions.get(answer.id, stream=True)]
        resumed = await interactions.get(answer.id, stream=True, last_event_id=events[2].event_id)
        printed += [{"event": event.event_type} async for event in resumed]
        following = await interactions.create(**asked, previous_interaction_id=answer.id)
        printed.append({"text": following.output_text})
        await interactions.delete(answer.id)
    return printed
