"""The translator and the hook engine under the names that the shared conformance vectors call them by."""

import asyncio
import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import hookgate.translator as t
from hookgate.hooks import HookError
from hookgate.hooks.document import Document
from hookgate.hooks.kinds.command import command_program
from hookgate.hooks.kinds.process import run_process
from hookgate.hooks.merge import merge
from hookgate.hooks.output import read_output, read_process
from hookgate.hooks.settings import CommandConfig, Hook

Json = dict[str, Any]


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
    program = replace(command_program(hook, config, input["session_id"]), max_stdout=4 << 20)
    answer: Json = {"success": False, "timed_out": False, "exit_code": None, "output": None}
    try:
        ended = asyncio.run(run_process(program, Document(input).json))
    except HookError as error:
        return {**answer, "timed_out": "timed out" in str(error)}
    answer |= {"success": ended.exit_code == 0, "exit_code": ended.exit_code}
    try:
        return {**answer, "output": read_process(event, hook.name, ended)}
    except HookError:
        return answer


def effects(event: str, outputs: list[Json]) -> Json:
    verdict = merge(event, [output for output in map(_read, outputs) if output is not None])
    effect = {"stop": verdict.stop, "block": verdict.denied, "synthetic": verdict.synthetic}
    return {**effect, "reason": verdict.reason}


def _read(output: Json) -> Json | None:
    """The output of a hook; one with a key of the wrong type is a hook error and says nothing."""
    try:
        return read_output(copy.deepcopy(output))
    except HookError:
        return None
