"""The translator and the hook engine under the names that the shared conformance vectors call them by."""

import asyncio
import copy
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import hookgate.translator as t
from hookgate import hooks
from hookgate.hooks import BeforeModel, Configuration, Engine, Event, HookError, SessionContext
from hookgate.hooks.engine import combined_output
from hookgate.hooks.events.base import Document, SharedValue
from hookgate.hooks.events.reading import read_event
from hookgate.hooks.merge import merge
from hookgate.hooks.output import read_output, read_process
from hookgate.hooks.runners.command import command_program, in_session
from hookgate.hooks.runners.inprocess import RuntimeRunner
from hookgate.hooks.runners.process import finish_process, spawn
from hookgate.hooks.runs import make_document
from hookgate.hooks.settings import (
    EVENTS,
    CommandConfig,
    Group,
    Hook,
    RuntimeConfig,
    SettingsSource,
    Subject,
    read_sources,
)

Json = dict[str, Any]

EVENT_CLASSES: dict[str, Any] = {name: getattr(hooks, name) for name in EVENTS}


def to_llm_request(model: str, body: Json) -> Json:
    view = t.show_request(model, body)
    return {**view, "generationConfig": view["config"]}  # one of the documents spells it so


def apply_llm_request(model: str, body: Json, patch: Json) -> tuple[str, Json]:
    try:
        return t.apply_request(model, body, patch)
    except t.EditError:  # a hook whose edit does not fit has failed: the request stays as it was
        return model, body


def to_llm_response(body: Json) -> Json:
    return t.show_response(body)


def apply_llm_response(body: Json, patch: Json) -> Json:
    try:
        return t.apply_response(body, patch)
    except t.EditError:
        return body


def from_llm_response(llm_response: Json) -> Json:
    return t.synthetic_response(llm_response)


def to_tool_config(body: Json) -> Json | None:
    return t.show_tool_config(body)


def apply_tool_config(body: Json, tool_config: Json) -> Json:
    return t.apply_tool_config(body, tool_config)


def apply_tools(body: Json, tools: list[Any]) -> Json:
    return t.apply_tools(body, tools)


def run_command(event: str, hook_config: Json, input: Json) -> Json:  # noqa: A002  # the vectors' own name
    config = CommandConfig.model_validate(hook_config)
    hook = Hook(config.name or str(config.command), config, Path(input["cwd"]), Path("settings.json"))
    # One vector prints 3 MB, which is more than the gateway takes.
    program = replace(in_session(command_program(hook, config), input["session_id"]), max_stdout=4 << 20)
    answer: Json = {"success": False, "timed_out": False, "exit_code": None, "output": None}
    try:
        ended = asyncio.run(finish_process(spawn(program), program, Document(input).json))
    except HookError as error:
        return {**answer, "timed_out": "timed out" in str(error)}
    answer |= {"success": ended.exit_code == 0, "exit_code": ended.exit_code}
    try:
        return {**answer, "output": read_process(event, hook.name, ended)}
    except HookError:
        return answer


BARE_EVENTS: dict[str, Event] = {
    "SessionStart": hooks.SessionStart(),
    "SessionEnd": hooks.SessionEnd(),
    "BeforeAgent": hooks.BeforeAgent(""),
    "AfterAgent": hooks.AfterAgent("", ""),
    "BeforeModel": BeforeModel("m", {}),
    "AfterModel": hooks.AfterModel(SharedValue({}), {}),
    "BeforeToolSelection": hooks.BeforeToolSelection("m", {}),
    "BeforeTool": hooks.BeforeTool("t", {}),
    "AfterTool": hooks.AfterTool("t", {}, {}),
    "PreCompress": hooks.PreCompress(),
    "Notification": hooks.Notification("t", ""),
}


def aggregate(event: str, outputs: list[Json]) -> Json | None:
    """What an engine and the answer to a shim make of hooks that give these outputs."""
    configs = [RuntimeConfig(type="runtime", action=f"hook:h{number}") for number in range(len(outputs))]
    group = tuple(Hook(config.action, config, Path(), Path("settings.json"), event) for config in configs)
    runners = {
        hook: RuntimeRunner(hook, partial(_give, output)) for hook, output in zip(group, outputs, strict=True)
    }
    bare = BARE_EVENTS[event]
    engine = Engine(Configuration({event: (Group(group),)}), runners)
    output = combined_output(bare, asyncio.run(engine.fire(bare, SessionContext("s"))))
    return output if outputs else None


async def _give(output: Json, _: Json) -> Json:
    return copy.deepcopy(output)


def plan(event: str, settings_layers: list[Json], context: Json | None) -> list[Json]:
    with TemporaryDirectory() as folder:
        places = []
        for number, layer in enumerate(settings_layers):
            path = Path(folder, f"{number}.json")
            path.write_text(json.dumps(layer["settings"]))
            places.append(SettingsSource(path, layer["source"]))
        configuration = read_sources(places).configuration
    about = context or {}
    tools = (about["tool_name"],) if "tool_name" in about else ()
    return [
        {
            "name": hook.config.name,
            "command": hook.target,
            "timeout": hook.config.timeout,
            "sequential": group.sequential,
        }
        for group in configuration.matching_groups(
            event, Subject(tools=tools, trigger=about.get("trigger", ""))
        )
        for hook in group.hooks
    ]


def additional_context(event: str, output: Json) -> str | None:
    return merge(event, [output]).context


def chain_input(event: str, input: Json, output: Json) -> Json:  # noqa: A002  # the vectors' own name
    before: Event = read_event(event, input) if "llm_request" in input else EVENT_CLASSES[event](**input)
    specific = output.get("hookSpecificOutput") or {}
    after, edit = before.for_next_hook(specific), before.extract_edit(specific, "text")
    after = after.edited(edit, "text") if edit else after
    return {key: value for key, value in after.fields("text").items() if key in input}


def hook_input(event: str, data: Json, base: Json) -> Json:
    if event == "AfterModel":
        shown = SharedValue(t.show_request(data["model"], data["body"]))
        data = {"llm_request": shown, "body": data["response"]}
    hook = Hook("h", CommandConfig(type="command", command="h"), Path(base["cwd"]), Path("settings.json"))
    session = SessionContext(base["session_id"], base["transcript_path"])
    return make_document(hook, EVENT_CLASSES[event](**data), session).value()


def effects(event: str, outputs: list[Json]) -> Json:
    verdict = merge(event, [output for output in map(partial(_read, event), outputs) if output is not None])
    effect = {"stop": verdict.stop, "block": verdict.denied, "synthetic": verdict.synthetic}
    return {**effect, "reason": verdict.reason}


def _read(event: str, output: Json) -> Json | None:
    """The output of a hook; one with a key of the wrong type is a hook error and says nothing."""
    try:
        return read_output(copy.deepcopy(output), event)
    except HookError:
        return None
