"""The configurations by name: other proxies, and the gateway with each kind of hook."""

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.gateway import others
from benchmarks.payloads import FORBIDDEN
from benchmarks.processes import HOOKGATE, Server, free_port, hookgate, running

Start = Callable[[str, Path], AbstractContextManager[Server]]
"""Starts a server, given the URL of the upstream and an empty folder for the server's files."""

_RUNTIME = f"""
async def before(call):
    if {FORBIDDEN!r} in call["llm_request"]["messages"][-1]["content"]:
        return {{"decision": "deny", "reason": "forbidden"}}


async def after(call):
    if {FORBIDDEN!r} in call["llm_response"].get("text", ""):
        return {{"decision": "deny", "reason": "forbidden"}}
"""

_JUDGE = f"""
import json, sys

def output_of(call):
    if "llm_response" in call:
        text = call["llm_response"].get("text", "")
    else:
        text = call["llm_request"]["messages"][-1]["content"]
    return {{"decision": "deny", "reason": "forbidden"}} if {FORBIDDEN!r} in text else {{}}
"""

_PROGRAM = f"""{_JUDGE}
print(json.dumps(output_of(json.load(sys.stdin))))
"""

_PERSISTENT = f"""{_JUDGE}
for line in sys.stdin:
    print(json.dumps(output_of(json.loads(line))), flush=True)
"""


@dataclass(frozen=True)
class Configuration:
    """A server to measure.

    Attributes:
        title: Its name in tables.
        start: Starts it.
        denies: Whether one of its hooks denies the forbidden word. This is checked before each run.
        masks: Whether it masks a secret in a request. This is also checked.
        missing: The reason why it cannot be measured on this machine, or an empty string.
        ours: Whether it is the gateway.
    """

    title: str
    start: Start
    denies: bool = False
    masks: bool = False
    missing: str = ""
    ours: bool = False


def both(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Return settings with one hook before and one after each call, or after each event of a stream."""
    if after["type"] != "builtin":  # by default, it would see a window of text again with each event
        after = {**after, "stream": "event"}
    return {"hooks": {"BeforeModel": [{"hooks": [before]}], "AfterModel": [{"hooks": [after]}]}}


def _runtime(function: str, **more: str) -> dict[str, Any]:
    return {"name": function, "type": "runtime", "action": f"./hooks.py:{function}", **more}


_REDACT = {"name": "no-secrets", "type": "builtin", "builtin": "redact"}
RUNTIME = both(_runtime("before"), _runtime("after"))
REDACT = both(_REDACT, _REDACT)
_OBSERVED = {**_REDACT, "mode": "observe"}


def _command(program: str, **more: Any) -> dict[str, Any]:
    hook = {
        "name": program,
        "type": "command",
        "command": [sys.executable, "-I", "-S", f"./{program}.py"],
        **more,
    }
    return both(hook, hook)


def _with_unused(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings with ten more policies and fifty more patterns that do not apply to the calls."""
    elsewhere = {"when": {"teams": "another-team"}}
    patterns = {f"TICKET_{chr(65 + i // 26)}{chr(65 + i % 26)}": f"TCK{i}-[0-9]{{6}}" for i in range(50)}
    limits = {"rules": [{"per": "key", "window": "minute", "requests": 5}]}
    policies: list[dict[str, Any]] = [
        {"builtin": "redact", "options": {"patterns": patterns}, **elsewhere},
        *({"builtin": "models", "options": {"deny": [f"other-{i}"]}, **elsewhere} for i in range(3)),
        {"builtin": "models", "options": {"allow": ["none"]}, "when": {"models": "gemini-*-pro"}},
        {"builtin": "models", "options": {"cap": {"maxOutputTokens": 1}}, "when": {"clients": "curl"}},
        {"builtin": "limits", "options": limits, **elsewhere},
    ]
    tools = [
        {"builtin": "tools", "options": {"deny": [{"tool": f"other_{i}"}]}, "name": f"tools-{i}"}
        for i in range(3)
    ]
    before = [{"type": "builtin", "name": f"unused-{i}", **policy} for i, policy in enumerate(policies)]
    after = [each for each in before if each["builtin"] == "redact"]
    hooks = settings["hooks"]
    return {
        "hooks": {
            "BeforeModel": [{"hooks": before}, *hooks["BeforeModel"]],
            "AfterModel": [{"hooks": after}, *hooks["AfterModel"]],
            "BeforeTool": [{"matcher": "other_.*", "hooks": [{"type": "builtin", **each} for each in tools]}],
        }
    }


@contextlib.contextmanager
def _peer(
    kind: str, origin: str, folder: Path, command: Sequence[str] = (sys.executable,)
) -> Iterator[Server]:
    port = free_port()
    argv = [*command, "-m", "benchmarks.gateway.peers", kind, str(port), origin]
    with running(argv, port) as server:
        yield server


@contextlib.contextmanager
def gateway(
    settings: dict[str, Any] | None,
    origin: str,
    folder: Path,
    environment: dict[str, str] | None = None,
    command: Sequence[str] = HOOKGATE,
) -> Iterator[Server]:
    """Start the gateway.

    Args:
        settings: The settings of its hooks, or None to run without hooks.
        origin: The URL of the upstream.
        folder: An empty folder for the settings and the code of the hooks.
        environment: Environment variables to add or replace.
        command: The command that starts hookgate, as a list of words.
    """
    files = []
    if settings:
        for name, code in (("hooks", _RUNTIME), ("program", _PROGRAM), ("persistent", _PERSISTENT)):
            (folder / f"{name}.py").write_text(code)
        files.append(folder / "settings.json")
        files[0].write_text(json.dumps(settings))
    with hookgate(command, origin, files, environment or {}) as server:
        yield server


@contextlib.contextmanager
def _with_service(origin: str, folder: Path, command: Sequence[str] = HOOKGATE) -> Iterator[Server]:
    with others.hook_service() as url:
        hook = {"name": "service", "type": "http", "url": url}
        with gateway(both(hook, hook), origin, folder, command=command) as server:
            yield server


def _hooked(title: str, settings: dict[str, Any]) -> Configuration:
    return Configuration(title, partial(gateway, settings), denies=True, ours=True)


CONFIGURATIONS: dict[str, Configuration] = {
    "nginx": Configuration("nginx", others.nginx, missing=others.missing_nginx()),
    "copying": Configuration("bare aiohttp + uvloop, copying", partial(_peer, "copying")),
    "naive": Configuration(
        "the naive floor: + orjson both ways + one hook", partial(_peer, "naive"), denies=True
    ),
    "litellm": Configuration("LiteLLM + hook", others.litellm, denies=True, missing=others.missing_litellm()),
    "mitmproxy": Configuration(
        "mitmproxy + addon", others.mitmproxy, denies=True, missing=others.missing_mitmproxy()
    ),
    "plain": Configuration("hookgate, no hooks", partial(gateway, None), ours=True),
    "runtime": _hooked("hookgate, async runtime hook before and after", RUNTIME),
    "unaudited": Configuration(
        "the same, audit disabled",
        partial(gateway, RUNTIME, environment={"HOOKGATE_AUDIT__ENABLED": "false"}),
        denies=True,
        ours=True,
    ),
    "unused": _hooked("the same, and 10 policies and 50 patterns that do not apply", _with_unused(RUNTIME)),
    "workers": Configuration(
        "the same, two workers",
        partial(gateway, RUNTIME, environment={"HOOKGATE_LISTEN__WORKERS": "2"}),
        denies=True,
        ours=True,
    ),
    "redact": Configuration(
        "hookgate, redact before and after", partial(gateway, REDACT), masks=True, ours=True
    ),
    "observe": Configuration(
        "the same in observe mode", partial(gateway, both(_OBSERVED, _OBSERVED)), ours=True
    ),
    "persistent": _hooked(
        "hookgate, persistent hook before and after", _command("persistent", persistent=True)
    ),
    "http": Configuration("hookgate, http hook before and after", _with_service, denies=True, ours=True),
    "command": _hooked("hookgate, command hook (Python) before and after", _command("program")),
}
"""All configurations, in the order of the tables."""


def beside(name: str, checkout: Path) -> Configuration:
    """Return a configuration of the gateway that runs the code of another checkout, in its own `.venv`."""
    ours = CONFIGURATIONS[name]
    return replace(
        ours, start=partial(ours.start, command=(str(checkout / ".venv/bin/python"), *HOOKGATE[1:]))
    )
