"""Views of hooks: what each shows, and that edits are applied through the same view."""

import copy
from pathlib import Path
from typing import Any

import pytest
from support.hooks.settings import SESSION, command, one_group, parallel, write_file
from support.hooks.settings import engine as engine_of

from hookgate.hooks import AfterModel, BeforeModel, BeforeToolSelection, SettingsError, load_settings
from hookgate.hooks.events.base import SharedValue
from hookgate.translator import VIEWS

CALL = {"functionCall": {"name": "read", "args": {"path": "a"}}, "thoughtSignature": "c2ln"}
RESULT = {"functionResponse": {"name": "read", "response": {"output": "secret"}}}
BODY: dict[str, Any] = {
    "contents": [
        {"role": "user", "parts": [{"text": "read it"}]},
        {"role": "model", "parts": [CALL]},
        {"role": "user", "parts": [RESULT]},
    ],
    "generationConfig": {"temperature": 1},
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("event", [BeforeModel, BeforeToolSelection])
async def test_a_hook_is_shown_the_view_it_asks_for(view: str, event: Any) -> None:
    seen: list[Any] = []
    engine = engine_of(parallel(seen.append, view=view), event=event.name)
    outcome = await engine.fire(event("m", BODY), SESSION)
    assert [run.error for run in outcome.runs] == [""]
    assert seen[0]["llm_request"] == VIEWS[view]("m", BODY).view()


async def test_a_hook_redacts_a_tool_result_through_typed_parts() -> None:
    def redact(event: Any) -> Any:
        messages = event["llm_request"]["messages"]
        messages[2]["content"][0]["response"]["output"] = "[HIDDEN]"
        return {"hookSpecificOutput": {"llm_request": {"messages": messages}}}

    outcome = await engine_of(parallel(redact, view="parts")).fire(BeforeModel("m", BODY), SESSION)
    want = copy.deepcopy(BODY)
    want["contents"][2]["parts"][0]["functionResponse"]["response"]["output"] = "[HIDDEN]"
    assert outcome.event.body == want


async def test_hooks_of_different_views_edit_one_request() -> None:
    def through_parts(event: Any) -> Any:
        messages = event["llm_request"]["messages"]
        messages[1]["content"][0]["args"]["path"] = "b"
        return {"hookSpecificOutput": {"llm_request": {"messages": messages}}}

    def through_text(event: Any) -> Any:
        messages = [{**m, "content": m["content"].upper()} for m in event["llm_request"]["messages"]]
        return {"hookSpecificOutput": {"llm_request": {"messages": messages}}}

    def through_raw(event: Any) -> Any:
        request = event["llm_request"]
        request["contents"][0]["parts"].append({"text": " now"})
        return {"hookSpecificOutput": {"llm_request": request}}

    groups = [
        parallel(through_parts, view="parts"),
        parallel(through_text),
        parallel(through_raw, view="raw"),
    ]
    outcome = await engine_of(*groups).fire(BeforeModel("m", BODY), SESSION)
    assert [run.error for run in outcome.runs] == ["", "", ""]
    want = copy.deepcopy(BODY)
    want["contents"][0]["parts"] = [{"text": "READ IT"}, {"text": " now"}]
    want["contents"][1]["parts"][0]["functionCall"]["args"]["path"] = "b"
    assert outcome.event.body == want


async def test_an_edit_that_does_not_fit_names_hook_and_place(caplog: pytest.LogCaptureFixture) -> None:
    def robot(event: Any) -> Any:
        messages = event["llm_request"]["messages"]
        messages[1]["content"].append({"type": "robot"})
        return {"hookSpecificOutput": {"llm_request": {"messages": messages}}}

    outcome = await engine_of(parallel(robot, view="parts")).fire(BeforeModel("m", BODY), SESSION)
    assert outcome.event.body is BODY
    assert (
        "'robot' failed: hookSpecificOutput.llm_request.messages[1].content[1].type: expected" in caplog.text
    )


def test_an_unknown_view_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"hooks\[0\]\.view: must be 'text', 'parts', 'raw' or 'body'"):
        load_settings([write_file(tmp_path, one_group(command(view="all")))])


ANSWER: dict[str, Any] = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "reading"}, CALL]}, "index": 0}],
    "modelVersion": "m-1",
}


async def test_a_hook_edits_a_call_in_the_raw_answer() -> None:
    def elsewhere(event: Any) -> Any:
        response = event["llm_response"]
        response["raw"]["candidates"][0]["content"]["parts"][1]["functionCall"]["args"]["path"] = "b"
        return {"hookSpecificOutput": {"llm_response": response}}

    engine = engine_of(parallel(elsewhere, view="raw"), event="AfterModel")
    outcome = await engine.fire(AfterModel(SharedValue({}), ANSWER), SESSION)
    want = copy.deepcopy(ANSWER)
    want["candidates"][0]["content"]["parts"][1]["functionCall"]["args"]["path"] = "b"
    assert outcome.event.body == want


async def test_a_raw_answer_that_the_api_could_not_give_fails_the_hook() -> None:
    def broken(event: Any) -> Any:
        return {"hookSpecificOutput": {"llm_response": {"raw": {"candidates": "none"}}}}

    engine = engine_of(parallel(broken, view="raw"), event="AfterModel")
    outcome = await engine.fire(AfterModel(SharedValue({}), ANSWER), SESSION)
    assert "hookSpecificOutput.llm_response.raw.candidates" in outcome.runs[0].error
    assert outcome.event.body == ANSWER
