"""Hooks for the engine's tests: settings files, functions as runtime hooks, and events to fire."""

import json
import sys
import types
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from hookgate.hooks import BeforeModel, Configuration, Engine, SessionContext
from hookgate.hooks.settings import Group, Hook, RuntimeConfig

Json = dict[str, Any]
Action = Callable[..., Any]

SESSION = SessionContext("s-1", "/logs/s-1.json")
ROOT = Path("/")

_numbers = count(1)


def write_file(folder: Path, content: Any, name: str = "settings.json") -> Path:
    """A settings file; text is written as it is, anything else as JSON."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def command(line: str = "true", **more: Any) -> Json:
    return {"type": "command", "command": line, **more}


def one_group(*configs: Json, event: str = "BeforeModel", **group: Any) -> Json:
    """The content of a settings file with one group of hooks."""
    return {"hooks": {event: [{"hooks": list(configs), **group}]}}


def runtime(action: Action, **more: Any) -> Hook:
    """A function of a test as a runtime hook that carries its name."""
    module = f"hooks_of_tests_{next(_numbers)}"
    sys.modules[module] = types.ModuleType(module)
    sys.modules[module].act = action  # type: ignore[attr-defined]  # a module made for this hook
    config = RuntimeConfig(type="runtime", action=f"{module}:act", **more)
    name, on_error = getattr(action, "__name__", "hook"), config.on_error or "allow"
    return Hook(name, config, ROOT, ROOT / "settings.json", on_error=on_error)


def parallel(*actions: Action, **more: Any) -> Group:
    return Group(tuple(runtime(action, **more) for action in actions))


def sequential(*actions: Action, **more: Any) -> Group:
    return Group(tuple(runtime(action, **more) for action in actions), sequential=True)


def engine(*groups: Group, event: str = "BeforeModel") -> Engine:
    return Engine(Configuration({event: groups}))


def asking(*texts: str, config: Mapping[str, Any] | None = None) -> BeforeModel:
    """A request of these user turns."""
    body: Json = {"contents": [{"role": "user", "parts": [{"text": text}]} for text in texts]}
    return BeforeModel("gemini-2.5-flash", {**body, "generationConfig": dict(config)} if config else body)


def texts_of(event: BeforeModel) -> list[str]:
    return [part["text"] for content in event.body["contents"] for part in content["parts"]]


def editing(**request: Any) -> Json:
    """An output that edits the request."""
    return {"hookSpecificOutput": {"hookEventName": "BeforeModel", "llm_request": request}}


def rewriting(change: Callable[[str], str], event: Json) -> Json:
    """An output that gives back every message with its text changed: what a redactor prints."""
    messages = [{**m, "content": change(m["content"])} for m in event["llm_request"]["messages"]]
    return editing(messages=messages)
