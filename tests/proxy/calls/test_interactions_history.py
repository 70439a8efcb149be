"""What the gateway remembers of an interaction that a call continues, reads or deletes."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from support.bodies.interactions import (
    ANSWER,
    CREATED,
    HI,
    PATH,
    TEXT_STEP,
    Json,
    completed,
    delta,
    sse,
    started,
    stopped,
)
from support.bodies.planting import SECRET
from support.gateway.dialects import REDACT
from support.gateway.loopback import gateway_before, listens, running_upstream, runs, says
from support.hooks.http import service
from support.programs.program import serving
from support.wire import KEY, STREAM_HEAD, Answer, ask, connected, ok, peer, post, request_bytes

from hookgate.proxy.config import Config, StoreSettings
from hookgate.proxy.sessions.interactions import MAX_TURN_BYTES, KnownInteractions
from hookgate.proxy.store import Store

REFUSES = Config.model_validate({"routes": {"unknown_interactions": "refuse"}})
OTHER_KEY = {"x-goog-api-key": "other-key"}
PASSES: Json = {"AfterModel": [listens([])]}


@dataclass(frozen=True)
class Gateways:
    """Two gateways that share a database, and the requests that reached the upstream behind them."""

    urls: list[str]
    recorded: Any

    @property
    def url(self) -> str:
        return self.urls[0]

    async def create(self, text: str, headers: dict[str, str] | None = None, **fields: Any) -> Answer:
        return await post(self.url, PATH, {**HI, "input": text, **fields}, headers)


@asynccontextmanager
async def gateways(
    state: Path, hooks: Json, config: Config | None = None, *, script: Any = None, content: bool = False
) -> AsyncIterator[Gateways]:
    async with (
        running_upstream(script) as (upstream_url, recorded),
        Store(StoreSettings(), state) as store,
        Store(StoreSettings(), state) as other_store,
    ):
        known = [KnownInteractions(each.interactions, keeps_content=content) for each in (store, other_store)]
        async with (
            gateway_before(upstream_url, hooks, config, interactions=known[0]) as url,
            gateway_before(upstream_url, hooks, config, interactions=known[1]) as other_url,
        ):
            yield Gateways([url, other_url], recorded)


# ---- what hooks are shown


async def test_hooks_see_whether_an_interaction_has_passed(tmp_path: Path) -> None:
    seen: list[Json] = []
    async with gateways(tmp_path, {"BeforeModel": [listens(seen)], **PASSES}) as running:
        first = (await running.create("one")).json["id"]
        for url in running.urls:
            await post(url, PATH, {**HI, "previous_interaction_id": first})
        await running.create("two", previousInteractionId=first)
        await running.create("two", OTHER_KEY, previous_interaction_id=first)
        await running.create("two", previous_interaction_id="v1_never")
    shown = [event["llm_request"] for event in seen]
    assert [each.get("history") for each in shown] == [None, *["known"] * 3, *["unknown"] * 2]
    assert all("previousMessages" not in each for each in shown)
    assert shown[1]["previousInteractionId"] == first
    assert len({each.get("previousRevision") for each in shown[1:4]}) == 1
    assert len({event["session_id"] for event in seen[:4]}) == 1
    assert len({event["session_id"] for event in seen}) == 3


async def test_a_session_that_the_client_names_counts_first(tmp_path: Path) -> None:
    seen: list[Json] = []
    async with gateways(tmp_path, {"BeforeModel": [listens(seen)], **PASSES}) as running:
        named = {**KEY, "x-hookgate-session": "mine"}
        first = (await running.create("one", named)).json["id"]
        await running.create("two", previous_interaction_id=first)
        await running.create("two", {**KEY, "x-hookgate-session": "new"}, previous_interaction_id=first)
    assert [event["session_id"] for event in seen] == ["mine", "mine", "new"]


@pytest.mark.parametrize("stream", [False, True])
async def test_hooks_see_earlier_turns_if_they_are_stored(tmp_path: Path, stream: bool) -> None:
    seen: list[Json] = []
    hooks = {"BeforeModel": [listens(seen), REDACT], "AfterModel": [REDACT]}
    async with gateways(tmp_path, hooks, content=True) as running:
        last = None
        for text in (f"the key is {SECRET}", "two", "three"):
            more = {} if last is None else {"previous_interaction_id": last}
            answer = await running.create(text, stream=stream, **more)
            body = answer.body if stream else b"data: " + answer.body
            line = next(line for line in body.split(b"\n") if line.startswith(b"data: "))
            shown = json.loads(line.removeprefix(b"data: "))
            last = shown["interaction"]["id"] if stream else shown["id"]
    messages = [event["llm_request"].get("previousMessages") for event in seen]
    first = [
        {"role": "user", "content": "the key is [AWS_ACCESS_KEY]"},
        {"role": "model", "content": "You said: the key is [AWS_ACCESS_KEY]"},
    ]
    second = [{"role": "user", "content": "two"}, {"role": "model", "content": "You said: two"}]
    assert messages == [None, first, first + second]
    assert "contents" not in json.dumps(running.recorded[2].body)
    assert running.recorded[2].body["input"] == "three"
    assert SECRET.encode() not in (tmp_path / "hookgate.db").read_bytes()


async def test_an_edit_of_earlier_turns_has_no_effect(tmp_path: Path) -> None:
    edit = {"previousInteraction": {"known": True, "contents": []}, "previousMessages": []}
    hooks = {"BeforeModel": [says(llm_request={**edit, "config": {"temperature": 0.5}})], **PASSES}
    async with gateways(tmp_path, hooks, content=True) as running:
        first = (await running.create("one")).json["id"]
        await running.create("two", previous_interaction_id=first)
    body = running.recorded[1].body
    assert body == {
        **HI,
        "input": "two",
        "previous_interaction_id": first,
        "generation_config": {"temperature": 0.5},
    }


async def test_a_long_turn_is_not_kept(tmp_path: Path) -> None:
    seen: list[Json] = []
    hooks = {"BeforeModel": [listens(seen)], **PASSES}
    async with gateways(tmp_path, hooks, content=True) as running:
        first = (await running.create("x" * MAX_TURN_BYTES)).json["id"]
        await running.create("two", previous_interaction_id=first)
    shown = seen[1]["llm_request"]
    assert (shown["history"], shown.get("previousMessages")) == ("known", None)


# ---- unknown ones


ODD = ["", "v1_1\0", "../v1_1", "v1/1", "é", "x" * 600, "v1_1 ", "%00", "' OR 1=1 --"]


@pytest.mark.parametrize("config", [Config(), REFUSES])
async def test_an_odd_id_is_unknown(tmp_path: Path, config: Config) -> None:
    seen: list[Json] = []
    async with gateways(tmp_path, {"BeforeModel": [listens(seen)], **PASSES}, config) as running:
        answers = [await running.create("hi", previous_interaction_id=each) for each in ODD]
        wrong = await running.create("hi", previous_interaction_id=["v1_1"])
    refused = config is REFUSES
    assert [answer.status for answer in answers] == [403 if refused else 200] * len(ODD)
    assert [event["llm_request"]["history"] for event in seen] == ["unknown"] * (0 if refused else len(ODD))
    assert wrong.status == 400


async def test_an_unknown_one_is_refused_alike_whether_or_not_it_is_of_another_key(tmp_path: Path) -> None:
    async with gateways(tmp_path, PASSES, REFUSES) as running:
        mine = (await running.create("one")).json["id"]
        before = len(running.recorded)
        answers: dict[str, list[Json]] = {}
        for id_ in (mine, "v1_never"):
            place = f"{PATH}/{id_}"
            answers[id_] = [
                (await running.create("two", OTHER_KEY, previous_interaction_id=id_)).error,
                (await running.create("two", OTHER_KEY, previous_interaction_id=id_, stream=True)).error,
                (await ask(running.url, "GET", place, OTHER_KEY)).error,
                (await ask(running.url, "GET", f"{place}?stream=true&last_event_id=e1", OTHER_KEY)).error,
                (await ask(running.url, "POST", f"{place}/cancel", OTHER_KEY)).error,
                (await ask(running.url, "DELETE", place, OTHER_KEY)).error,
            ]
        assert answers[mine] == answers["v1_never"]
        assert {error["details"][0]["reason"] for error in answers[mine]} == {"INTERACTION_UNKNOWN"}
        assert len(running.recorded) == before
        for url in running.urls:
            assert (await ask(url, "GET", f"{PATH}/{mine}")).status == 200


@pytest.mark.parametrize("version", ["/v1beta", "/v1alpha", "/v1beta1/projects/p/locations/global"])
async def test_one_of_another_key_is_refused_on_unhooked_routes_too(tmp_path: Path, version: str) -> None:
    routes = {"unknown_interactions": "refuse", "unhooked": ["interactions"]}
    async with gateways(tmp_path, PASSES, Config.model_validate({"routes": routes})) as running:
        mine = (await running.create("one")).json["id"]
        before = len(running.recorded)
        place = f"{version}/interactions/{mine}"
        answers = [
            await ask(running.url, method, f"{place}{below}", OTHER_KEY)
            for method, below in (
                ("PATCH", ""),
                ("PUT", ""),
                ("GET", "/steps"),
                ("GET", "/steps/1?alt=sse"),
                ("PATCH", "/steps/1"),
            )
        ]
        assert [answer.error["details"][0]["reason"] for answer in answers] == ["INTERACTION_UNKNOWN"] * 5
        assert len(running.recorded) == before
        for method, below in (("GET", "/steps"), ("PATCH", "")):
            await ask(running.url, method, f"{PATH}/{mine}{below}")
        assert len(running.recorded) == before + 2


async def test_a_gateway_without_hooks_knows_them_if_unknown_ones_are_refused(tmp_path: Path) -> None:
    async with gateways(tmp_path, {}, REFUSES) as running:
        first = (await running.create("one")).json["id"]
        assert (await running.create("two", previous_interaction_id=first)).status == 200
        assert (await running.create("two", previous_interaction_id="v1_never")).status == 403


async def test_a_deleted_one_is_forgotten(tmp_path: Path) -> None:
    async with gateways(tmp_path, PASSES, REFUSES) as running:
        first = (await running.create("one")).json["id"]
        assert (await ask(running.url, "DELETE", f"{PATH}/{first}")).status == 200
        for url in running.urls:
            answer = await post(url, PATH, {**HI, "previous_interaction_id": first})
            assert answer.error["details"][0]["reason"] == "INTERACTION_UNKNOWN"


async def test_what_continues_an_unknown_one_has_not_passed(tmp_path: Path) -> None:
    seen: list[Json] = []
    async with gateways(tmp_path, {"BeforeModel": [listens(seen)], **PASSES}) as running:
        second = (await running.create("two", previous_interaction_id="v1_never")).json["id"]
        await running.create("three", previous_interaction_id=second)
    assert [event["llm_request"]["history"] for event in seen] == ["unknown", "unknown"]
    assert seen[0]["session_id"] == seen[1]["session_id"]


# ---- answers that have not passed


def no_end(event: Json) -> Json | None:
    """AfterModel: deny an answer that speaks of the end."""
    return {"decision": "deny", "reason": "not this"} if "end" in str(event["llm_response"]) else None


@pytest.mark.parametrize("leaves", [False, True])
async def test_an_answer_that_has_not_passed_cannot_be_continued(tmp_path: Path, leaves: bool) -> None:
    events = [CREATED, started(TEXT_STEP), delta("begin "), delta("en"), delta("d"), stopped(), completed()]
    data = sse(events)
    at = data.index(b"event: step.delta")
    async with (
        peer(STREAM_HEAD, data[:at], 0.1, data[at:]) as upstream,
        Store(StoreSettings(), tmp_path) as store,
        gateway_before(
            upstream.url,
            {"AfterModel": [runs(no_end)]},
            REFUSES,
            interactions=KnownInteractions(store.interactions),
        ) as url,
    ):
        if leaves:
            async with connected(url) as client:
                await client.post(PATH, {**HI, "stream": True})
                await client.received(40, (await client.head())[1])
        else:
            assert b'"status":"incomplete"' in (await post(url, PATH, {**HI, "stream": True})).body
        continued = await post(url, PATH, {**HI, "previous_interaction_id": "v1_1"})
        read = await ask(url, "GET", f"{PATH}/v1_1?stream=true")
    assert continued.error["details"][0]["reason"] == "INTERACTION_UNKNOWN"
    assert read.status == 200  # it is known, and judged again
    assert b'"status":"incomplete"' in read.body


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_that_hooks_edit_has_passed(tmp_path: Path, stream: bool) -> None:
    def other(event: Json) -> Json:
        content = {"role": "model", "parts": [{"text": "other"}]}
        raw = {**event["llm_response"]["raw"], "candidates": [{"content": content}]}
        return {"hookSpecificOutput": {"llm_response": {"raw": raw}}}

    hooks = {"AfterModel": [runs(other, view="raw", stream="complete")]}
    async with gateways(tmp_path, hooks, REFUSES) as running:
        created = await running.create("one", stream=stream)
        id_ = json.loads(created.body.partition(b"data: ")[2].partition(b"\n")[0] or created.body)
        id_ = id_["interaction"]["id"] if stream else id_["id"]
        assert (await running.create("two", previous_interaction_id=id_)).status == 200


# ---- in the background


async def test_one_in_the_background_is_continued_once_its_answer_was_read(tmp_path: Path) -> None:
    seen: list[Json] = []
    hooks = {"BeforeModel": [listens(seen)], **PASSES}
    async with gateways(tmp_path, hooks, REFUSES, content=True) as running:
        first = (await running.create("one", background=True)).json["id"]
        statuses = []
        for _ in range(2):
            statuses.append((await running.create("two", previous_interaction_id=first)).status)
            await ask(running.urls[1], "GET", f"{PATH}/{first}")
        statuses.append((await running.create("two", previous_interaction_id=first)).status)
    assert statuses == [403, 403, 200]
    assert [each["content"] for each in seen[1]["llm_request"]["previousMessages"]] == [
        "one",
        "You said: one",
    ]


@pytest.mark.parametrize("query", ["", "?stream=true"])
async def test_its_tokens_are_counted_once_however_often_it_is_read(tmp_path: Path, query: str) -> None:
    async def used(url: str, answer: Answer) -> int:
        path = f"/hookgate/v1/receipts/{answer.headers['x-hookgate-receipt']}"
        tokens: int = (await ask(url, "GET", path, KEY)).json["usage"]["output_tokens"]
        return tokens

    async with gateways(tmp_path, PASSES) as running:
        whole = await running.create("one two three")
        created = await running.create("one two three", background=True)
        place = f"{PATH}/{created.json['id']}"
        first = await ask(running.url, "GET", place)
        reads = await asyncio.gather(*(ask(url, "GET", place + query) for url in running.urls * 3))
        counted = [await used(url, read) for url, read in zip(running.urls * 3, reads, strict=True)]
        assert [await used(running.url, each) for each in (created, first)] == [0, 0]
        assert sorted(counted) == [0] * 5 + [await used(running.url, whole)]
        assert await used(running.url, await ask(running.url, "GET", f"{PATH}/{whole.json['id']}")) == 0


async def test_limits_apply_to_answers_that_are_generated_in_the_background(tmp_path: Path) -> None:
    rule = {"tokens": 5, "window": "day", "per": "key"}
    limits = {"type": "builtin", "builtin": "limits", "options": {"rules": [rule]}}
    async with gateways(tmp_path, {"BeforeModel": [limits]}) as running:
        created = await running.create("one two three", background=True)
        held = await running.create("four", background=True)
        reads = [await ask(running.url, "GET", f"{PATH}/{created.json['id']}") for _ in range(3)]
        refused = await running.create("five", background=True)
        places = [f"/hookgate/v1/receipts/{read.headers['x-hookgate-receipt']}" for read in reads]
        receipts = [(await ask(running.url, "GET", place)).json for place in places]
    assert [answer.status for answer in (created, held, refused)] == [200, 403, 403]
    assert "8,197 of 5 tokens of this key have been used today; it resets" in held.error["message"]
    assert [bool(receipt["usage"]["input_tokens"]) for receipt in receipts] == [False, True, False]


async def test_an_answer_in_the_background_counts_once_even_if_nobody_reads_it(tmp_path: Path) -> None:
    rule = {"tokens": 1, "window": "day", "per": "key"}
    limits = {"type": "builtin", "builtin": "limits", "options": {"rules": [rule]}}

    async with gateways(tmp_path, {"BeforeModel": [limits]}) as running:

        async def used() -> int:
            denied = await running.create("four")
            [tokens] = re.findall(r"(\d+) of 1 tokens .* today; it resets", denied.error["message"])
            return int(tokens)

        asked = {"background": True, "generation_config": {"max_output_tokens": 1}}
        created = await running.create("one two three", **asked)
        estimated = await used()
        place = f"{PATH}/{created.json['id']}"
        first, again = [(await ask(running.url, "GET", place), await used()) for _ in range(3)][1:]
        receipt = f"/hookgate/v1/receipts/{first[0].headers['x-hookgate-receipt']}"
        reported = (await ask(running.url, "GET", receipt, KEY)).json["usage"]
    assert reported["output_tokens"] > 1  # of which one was estimated
    assert first[1] == max(estimated - 1, reported["input_tokens"]) + reported["output_tokens"]
    assert again[1] == first[1]


@pytest.mark.parametrize("before", [[1], [None, 1], [None, None, 0]])
async def test_tokens_that_are_reported_before_the_end_do_not_hide_the_others(
    tmp_path: Path, before: list[int | None]
) -> None:
    """One in the background may report what it has used until now, when it is created or read."""
    rule = {"tokens": 1, "window": "day", "per": "key"}
    limits = {"type": "builtin", "builtin": "limits", "options": {"rules": [rule]}}
    answers = [
        {**CREATED["interaction"], **({} if n is None else {"usage": {"total_output_tokens": n}})}
        for n in before
    ]
    answers.append(completed(usage={"total_output_tokens": 500_000})["interaction"])
    waiting = iter(answers)

    async def next_answer(_: web.Request) -> web.Response:
        return web.json_response(next(waiting))

    async with Store(StoreSettings(), tmp_path) as store, service(next_answer) as upstream:
        known = KnownInteractions(store.interactions)
        hooks = {"BeforeModel": [limits], **PASSES}
        async with gateway_before(upstream, hooks, interactions=known) as url:
            await post(url, PATH, {**HI, "background": True})
            for _ in answers[1:]:
                await ask(url, "GET", f"{PATH}/v1_1")
            denied = await post(url, PATH, HI)
    assert "500,002 of 1 tokens of this key" in denied.error["message"]  # two are those of the request


async def test_an_error_in_answer_to_one_in_the_background_uses_nothing(tmp_path: Path) -> None:
    rule = {"tokens": 5, "window": "day", "per": "key"}
    limits = {"type": "builtin", "builtin": "limits", "options": {"rules": [rule]}}
    broken = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{}"
    async with peer(broken) as upstream, gateway_before(upstream.url, {"BeforeModel": [limits]}) as url:
        statuses = [(await post(url, PATH, {**HI, "background": True})).status for _ in range(3)]
    assert statuses == [400] * 3


async def test_text_counts_that_a_client_has_read_before_it_left_without_its_tokens(tmp_path: Path) -> None:
    pending = ok(json.dumps({**CREATED["interaction"]}).encode())
    begun = sse([CREATED, started(TEXT_STEP), *[delta("word " * 800)] * 2]).removesuffix(
        b"event: done\ndata: [DONE]\n\n"
    )
    async with Store(StoreSettings(), tmp_path) as store:
        known = KnownInteractions(store.interactions)
        async with (
            peer(pending) as creating,
            peer(STREAM_HEAD, begun, stays=asyncio.Event()) as reading,
            gateway_before(creating.url, PASSES, interactions=known) as creating_url,
            gateway_before(reading.url, PASSES, interactions=known) as url,
        ):
            created = await post(creating_url, PATH, {**HI, "background": True})
            async with connected(url) as wire:
                await wire.write(request_bytes("GET", f"{PATH}/v1_1?stream=true", b"", KEY))
                status, headers = await wire.head()
                await wire.received(4_000, headers)
            place = f"/hookgate/v1/receipts/{headers['x-hookgate-receipt']}"
            async with asyncio.timeout(10):
                while (receipt := await ask(url, "GET", place)).status == 404:  # noqa: ASYNC110  # the call has not ended yet
                    await asyncio.sleep(0.05)
    assert (created.status, status) == (200, 200)
    assert receipt.json["usage"]["estimated"] == {"input_tokens": 0, "output_tokens": 1_000}


async def test_a_call_in_an_answer_that_is_read_is_judged_in_its_session(tmp_path: Path) -> None:
    seen: list[Json] = []
    call = {"type": "function_call", "id": "c0", "name": "shell", "arguments": {}}
    said = ok(json.dumps({**ANSWER, "status": "requires_action", "steps": [call]}).encode())
    async with (
        peer(said) as upstream,
        Store(StoreSettings(), tmp_path) as store,
        gateway_before(
            upstream.url,
            {"BeforeModel": [listens(seen)], "BeforeTool": [listens(seen)]},
            interactions=KnownInteractions(store.interactions),
        ) as url,
    ):
        await post(url, PATH, HI)
        await ask(url, "GET", f"{PATH}/v1_1")
    assert [event["hook_event_name"] for event in seen] == ["BeforeModel", "BeforeTool", "BeforeTool"]
    assert len({event["session_id"] for event in seen}) == 1


# ---- a store that cannot be used


async def test_calls_that_need_what_cannot_be_read_are_refused(tmp_path: Path) -> None:
    (tmp_path / "hookgate.db").write_bytes(b"this is not a database" * 1000)
    async with gateways(tmp_path, PASSES) as running:
        created = await running.create("one")
        place = f"{PATH}/{created.json['id']}"
        answers = [
            await running.create("two", previous_interaction_id=created.json["id"]),
            await ask(running.url, "GET", place),
        ]
        deleted = await ask(running.url, "DELETE", place)
    assert (created.status, deleted.status) == (200, 200)
    assert {each.error["details"][0]["reason"] for each in answers} == {"INTERACTIONS_UNAVAILABLE"}
    assert not any(str(tmp_path) in each.body.decode() or "sqlite" in each.body.decode() for each in answers)
    assert len(running.recorded) == 2


# ---- the whole program


async def test_known_interactions_outlive_the_gateway(tmp_path: Path) -> None:
    env = {
        "HOOKGATE_ROUTES__UNKNOWN_INTERACTIONS": "refuse",
        "HOOKGATE_STORE__INTERACTION_CONTENT": "true",
        "HOOKGATE_STATE": str(tmp_path),
    }
    statuses = []
    previous: Json = {}
    async with running_upstream() as (upstream, _):
        for _ in range(2):
            async with serving("serve", "--upstream", upstream, env=env) as server:
                answer = await post(server.url, PATH, {**HI, **previous})
                statuses.append(answer.status)
                previous = {"previous_interaction_id": answer.json["id"]}
                unknown = await post(server.url, PATH, {**HI, "previous_interaction_id": "v1_never"})
                statuses.append(unknown.status)
                server.signal(15)
                assert await server.ended() == 0
    assert statuses == [200, 403, 200, 403]


async def test_the_tokens_of_an_earlier_interaction_count_for_those_that_continue_it(tmp_path: Path) -> None:
    """They are held, so that calls at once cannot all pass, and count if the client leaves."""
    rule = {"tokens": 30_000, "per": "key", "window": "day"}
    limits = {"type": "builtin", "builtin": "limits", "options": {"rules": [rule]}}
    usage = {"total_input_tokens": 9_000, "total_output_tokens": 1_000, "total_tokens": 10_000}
    first = json.dumps({**ANSWER, "usage": usage}).encode()
    more = {**HI, "previous_interaction_id": ANSWER["id"], "generation_config": {"max_output_tokens": 10}}
    stays = asyncio.Event()
    async with (
        peer(ok(first)) as creating,
        peer(stays=stays) as waiting,
        Store(StoreSettings(), tmp_path) as store,
    ):
        known = KnownInteractions(store.interactions)
        hooks = {"BeforeModel": [limits]}
        async with (
            gateway_before(creating.url, hooks, interactions=known) as url,
            gateway_before(waiting.url, hooks, interactions=known) as other,
        ):
            assert (await post(url, PATH, HI)).status == 200
            calls = [asyncio.create_task(post(other, PATH, more)) for _ in range(6)]
            denied = [await each for each in islice(asyncio.as_completed(calls), 3)]
            assert {answer.status for answer in denied} == {403}
            stays.set()
            await asyncio.wait(calls)
            assert len(waiting.heard) == 3
