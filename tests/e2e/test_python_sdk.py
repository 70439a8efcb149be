"""google-genai behind the gateway, with and without policies: what an application relies on."""

import pytest
from google.genai import errors, types
from pydantic import BaseModel
from support.clients.python_sdk import MODEL, Way, every_way, pieces, python_client, sdk_warnings
from support.gateway.loopback import listens, running_gateway, runs
from support.gateway.sent import sent_parts
from support.hooks.policies import (
    CANNED,
    CARD,
    REDACTED,
    REFUSAL,
    answer_itself,
    name_the_session,
    no_rockets,
    redact,
)

pytestmark = sdk_warnings

TELLS_A_SECRET = {"rules": [{"answer": {"chunks": ["The card is ", f"{CARD}, ", "keep it safe."]}}]}


# ---- answers


@every_way
@pytest.mark.parametrize("judged", [False, True], ids=["without hooks", "with hooks"])
async def test_answers_arrive_whichever_way_they_are_asked_for(way: Way, judged: bool) -> None:
    hooks = {"BeforeModel": [runs(no_rockets)], "AfterModel": [runs(redact)]} if judged else {}
    async with (
        running_gateway(hooks) as gateway,
        python_client(gateway.url) as client,
    ):
        answer = await pieces(client, way, "good morning to all of you")
    assert "".join(answer) == "You said: good morning to all of you"
    assert (len(answer) >= 3) is ("stream" in way)  # a stream is passed on as it comes
    assert len(gateway.generated) == 1


async def test_a_chat_remembers_its_turns_through_a_redacting_hook() -> None:
    hooks = {"AfterModel": [runs(redact)]}
    script = {"rules": [{"when": {"text": "my card"}, "answer": {"text": f"It is {CARD}."}}]}
    async with running_gateway(hooks, script) as gateway, python_client(gateway.url) as client:
        chat = client.aio.chats.create(model=MODEL)
        first = await chat.send_message("what is my card")
        streamed = [each.text async for each in await chat.send_message_stream("and now?")]
        last = await chat.send_message("goodbye")
    assert first.text == f"It is {REDACTED}."
    assert "".join(text or "" for text in streamed) == "You said: and now?"
    assert last.text == "You said: goodbye"
    reported = [part["text"] for part in sent_parts(gateway)]
    assert reported[:3] == ["what is my card", f"It is {REDACTED}.", "and now?"]
    assert "".join(reported[3:-1]) == "You said: and now?"


async def test_counting_embedding_and_listing_models_work_as_well() -> None:
    hooks = {"BeforeModel": [runs(no_rockets)]}
    async with running_gateway(hooks) as gateway, python_client(gateway.url) as client:
        counted = await client.aio.models.count_tokens(model=MODEL, contents="three small words")
        embedded = await client.aio.models.embed_content(model="gemini-embedding-001", contents="words")
        names = [model.name async for model in await client.aio.models.list()]
        one = await client.aio.models.get(model="gemini-3.8-flash")
    assert counted.total_tokens
    assert len(embedded.embeddings[0].values) == 768
    assert one.name in names


async def test_an_answer_in_a_schema_is_parsed_after_the_hooks() -> None:
    class City(BaseModel):
        name: str
        people: int

    hooks = {"AfterModel": [runs(redact)]}
    script = {"rules": [{"answer": {"text": f'{{"name": "{CARD}", "people": 7}}'}}]}
    as_city = types.GenerateContentConfig(response_mime_type="application/json", response_schema=City)
    async with running_gateway(hooks, script) as gateway, python_client(gateway.url) as client:
        answer = await client.aio.models.generate_content(model=MODEL, contents="a city", config=as_city)
    assert answer.parsed == City(name=REDACTED, people=7)


# ---- policies


@every_way
async def test_a_denial_is_an_error_with_its_reason_after_exactly_one_request(
    way: Way, arrived: list[str]
) -> None:
    hooks = {"BeforeModel": [runs(no_rockets)]}
    async with running_gateway(hooks) as gateway, python_client(gateway.url) as client:
        with pytest.raises(errors.ClientError) as denial:
            await pieces(client, way, "how do I build a rocket?")
    assert (denial.value.code, denial.value.status) == (403, "PERMISSION_DENIED")
    assert denial.value.message == REFUSAL
    assert len(arrived) == 1
    assert not gateway.recorded


@every_way
async def test_a_synthetic_answer_arrives_without_any_request_to_the_model(way: Way) -> None:
    hooks = {"BeforeModel": [runs(answer_itself)]}
    async with running_gateway(hooks) as gateway, python_client(gateway.url) as client:
        answer = await pieces(client, way, "anything")
    assert "".join(answer) == CANNED
    assert not gateway.recorded


@every_way
async def test_a_redacted_answer_shows_no_secret(way: Way) -> None:
    hooks = {"AfterModel": [runs(redact)]}
    async with running_gateway(hooks, TELLS_A_SECRET) as gateway, python_client(gateway.url) as client:
        answer = await pieces(client, way, "the card?")
    assert "".join(answer) == f"The card is {REDACTED}, keep it safe."
    assert len(gateway.generated) == 1


async def test_a_session_in_the_base_url_is_what_hooks_are_shown() -> None:
    hooks = {"BeforeModel": [runs(name_the_session)]}
    async with running_gateway(hooks) as gateway, python_client(gateway.url + "/s/abc") as client:
        assert await pieces(client, "async", "who am I?") == ["session abc"]
        assert await pieces(client, "sync stream", "who am I?") == ["session abc"]


async def test_the_headers_that_name_the_client_arrive_as_without_the_gateway() -> None:
    async with running_gateway({"BeforeModel": [listens([])]}) as gateway:
        for base_url in (gateway.upstream_url, gateway.url):
            async with python_client(base_url) as client:
                await pieces(client, "async", "hello")
        direct, through = gateway.recorded
    for name in ("user-agent", "x-goog-api-client"):
        assert through.headers[name] == direct.headers[name] != ""
