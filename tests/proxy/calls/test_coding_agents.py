"""The policy `redact` and coding agents: files that they read and write back lose nothing."""

import json
import re
from typing import Any

import pytest
from aiohttp import web
from support.gateway.loopback import gateway_before, listens, runs
from support.hooks.policies import REFUSAL, no_tool_results
from support.wire import KEY, SSE, UNARY, post

from hookgate.proxy.app import serve_on

Json = dict[str, Any]
MAIL = "anna.berg@example.org"
SECRET = "AKIA" + "Q3EGRYH7XJ4WPL2D"
SOURCE = f'authors = ["Anna Berg <{MAIL}>"]\nphone = "+49 30 901820"\nversion = "1.2.3"\n'


def read_then(source: str, role: str = "user") -> Json:
    """The request of an agent whose model called `read_file`, with the result in a turn of this role."""
    call = {"functionCall": {"name": "read_file", "args": {"file_path": "setup.toml"}}}
    result = {"functionResponse": {"name": "read_file", "response": {"output": source}}}
    return {
        "contents": [
            {"role": "user", "parts": [{"text": "Raise the version."}]},
            {"role": "model", "parts": [call]},
            {"role": role, "parts": [result]},
        ]
    }


class EditingModel:
    """A model that replaces the whole text of the file that it was shown."""

    def __init__(self) -> None:
        self.shown = ""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        [*_, turn] = (await request.json())["contents"]
        self.shown = turn["parts"][0]["functionResponse"]["response"]["output"]
        args = {"old_string": self.shown, "new_string": self.shown.replace("1.2.3", "1.3.0")}
        parts = [{"text": f"I edit {self.shown}"}, {"functionCall": {"name": "replace", "args": args}}]
        content = {"role": "model", "parts": parts}
        answer = json.dumps({"candidates": [{"content": content, "index": 0, "finishReason": "STOP"}]})
        if ":stream" not in request.path:
            return web.Response(text=answer, content_type="application/json")
        return web.Response(text=f"data: {answer}\r\n\r\n", content_type="text/event-stream")


async def edited(source: str, options: Json, path: str) -> tuple[str, str]:
    """Let an agent read and edit a file. Returns the file's new text, and what its model was shown."""
    policy = {"type": "builtin", "builtin": "redact", "options": options}
    model = EditingModel()
    async with (
        serve_on(model.handle, "127.0.0.1", 0) as upstream,
        gateway_before(upstream, {"BeforeModel": [policy], "AfterModel": [policy]}) as url,
    ):
        answer = await post(url, path, read_then(source), KEY)
    events = answer.events if path == SSE else [answer.json]
    parts = [part for event in events for one in event["candidates"] for part in one["content"]["parts"]]
    [call] = [part["functionCall"] for part in parts if "functionCall" in part]
    old, new = call["args"]["old_string"], call["args"]["new_string"]
    assert old in source, "the edit finds no match"
    return source.replace(old, new), model.shown


@pytest.mark.parametrize("path", [UNARY, SSE], ids=["unary", "stream"])
async def test_personal_data_in_an_edited_file_stays_by_default(path: str) -> None:
    assert await edited(SOURCE, {}, path) == (SOURCE.replace("1.2.3", "1.3.0"), SOURCE)


@pytest.mark.parametrize("path", [UNARY, SSE], ids=["unary", "stream"])
async def test_pseudonyms_are_restored_in_an_edited_file(path: str) -> None:
    source = f"{SOURCE}key = {SECRET}\n"
    options = {"detect": ["credentials", "personal"], "action": "pseudonymise"}
    file, shown = await edited(source, options, path)
    assert re.findall(r"HG_([A-Z_]+)_[0-9a-f]{16}", shown) == ["EMAIL", "PHONE", "AWS_ACCESS_KEY"]
    assert file == source.replace("1.2.3", "1.3.0")
    assert MAIL not in shown


async def test_credentials_are_masked_by_default() -> None:
    policy = {"type": "builtin", "builtin": "redact"}
    model = EditingModel()
    async with (
        serve_on(model.handle, "127.0.0.1", 0) as upstream,
        gateway_before(upstream, {"BeforeModel": [policy]}) as url,
    ):
        await post(url, UNARY, read_then(f"{SOURCE}key = {SECRET}\n"), KEY)
    assert model.shown == f"{SOURCE}key = [AWS_ACCESS_KEY]\n"


@pytest.mark.parametrize("role", ["user", "model", "function"])
async def test_the_result_of_a_tool_is_judged_whatever_the_role_of_its_turn(role: str) -> None:
    """Antigravity sends results as turns of the model."""
    model, results = EditingModel(), list[Json]()
    hooks = {"BeforeModel": [{"type": "builtin", "builtin": "redact"}], "AfterTool": [listens(results)]}
    request = read_then(f"key = {SECRET}\n", role)
    async with serve_on(model.handle, "127.0.0.1", 0) as upstream, gateway_before(upstream, hooks) as url:
        await post(url, UNARY, request, KEY)
    assert model.shown == "key = [AWS_ACCESS_KEY]\n"
    assert [result["tool_name"] for result in results] == ["read_file"]
    denying = {"BeforeModel": [runs(no_tool_results, view="raw")]}
    async with gateway_before("http://127.0.0.1:9", denying) as url:
        answer = await post(url, UNARY, request, KEY)
    assert answer.json["candidates"][0]["content"]["parts"] == [{"text": REFUSAL}]
