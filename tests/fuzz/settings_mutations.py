"""Settings files of a checkout, and mutations of them without end. Pure, except for special files."""

import json
import os
import random
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

_GUARD = {"type": "command", "command": "python3 hooks/guard.py", "name": "guard", "timeout": 5000}
_POLICY = {
    "type": "builtin",
    "builtin": "redact",
    "options": {"detectors": ["email"]},
    "description": "masks",
}
_SERVICE = {"type": "http", "url": "http://localhost:9/check", "headers": {"X-Team": "$TEAM"}}
_FUNCTION = {"type": "runtime", "action": "./act.py:act", "when": {"models": ["gemini-*"], "tools": "run_*"}}
_PROGRAM = {"type": "command", "command": ["sh", "a.sh"], "env": {"TOKEN": "$TOKEN"}, "persistent": True}

CORPUS: tuple[Any, ...] = (
    {"hooks": {"BeforeTool": [{"matcher": "write_.*|replace", "hooks": [_GUARD]}]}},
    {
        "theme": "GitHub",
        "mcpServers": {"github": {"command": "npx", "args": ["-y", "server"], "env": {"A": "b"}}},
        "hooks": {
            "enabled": True,
            "BeforeModel": [{"hooks": [_POLICY, _SERVICE], "sequential": True}],
            "AfterModel": [{"hooks": [_POLICY]}],
            "SessionStart": [{"matcher": "startup", "hooks": [_FUNCTION, _PROGRAM]}],
        },
    },
    {
        "tools": {"enableHooks": True},
        "hooks": {"BeforeModel": [{"hooks": [_GUARD, _FUNCTION]}], "AfterTool": [{"hooks": [_PROGRAM]}]},
        "hooksConfig": {"disabled": ["other"], "deadline": 5000, "on_error": "deny", "http_targets": []},
    },
)

_TEXTS: tuple[Callable[[random.Random], str], ...] = (
    lambda _: "\ud800",
    lambda _: "a\udfffb",
    lambda _: "\0",
    lambda _: "\n\x1b[2J",
    lambda _: "\u202e\u2028\U0010ffff",
    lambda _: "",
    lambda r: "x" * r.choice((300, 5000, 60_000)),
    lambda r: r.choice("[({\"'`$|\\") * r.choice((50, 5000, 30_000)),
    lambda r: "env " * r.choice((100, 10_000)) + "python3 a.py",
    lambda r: "a/" * r.choice((100, 10_000)),
    lambda _: "https://" + "a" * 30_000 + " b",
    lambda _: r"(\w+)+!" * 20,
    lambda _: r"((((.*)*)*)*)*!",
    lambda _: "(?!read)" + "(a{1000}){1000}",
    lambda r: "|".join(f"a{number}*" for number in range(r.choice((10, 9000)))),
    lambda _: "(" * 20_000 + ")" * 20_000,
    lambda _: "$" + "{GEMINI_CWD}/" * 2000,
    lambda _: "*[" * 5000,
    lambda r: r.choice(("/dev/zero", "/proc/self/mem", ".", "loop", "pipe")),
)

_VALUES: tuple[Callable[[random.Random], Any], ...] = (
    lambda _: None,
    lambda _: {},
    lambda _: [],
    lambda _: True,
    lambda _: -1,
    lambda _: 10**400,
    lambda _: 1e308,
    lambda _: float("nan"),
    lambda _: float("inf"),
    lambda r: _nested(r.choice((10, 60, 200, 900, 5000))),
    lambda r: {f"key{number}": number for number in range(r.choice((10, 900, 5000)))},
    lambda r: [dict(_GUARD) for _ in range(r.choice((2, 100, 400)))],
    lambda r: [f"gemini{number}-*" for number in range(r.choice((10, 900)))],
    lambda r: dict.fromkeys((f"E{number}" for number in range(r.choice((10, 900)))), r.choice(("", 1, None))),
)


def _nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


def mutated(seed: int, path: Path) -> str:
    """Write mutated settings to `path`, and return a short description."""
    chance = random.Random(seed)  # noqa: S311  # a seed for each file
    _remove(path)
    if chance.random() < 0.05:
        return _write_special(chance, path)
    value = deepcopy(chance.choice(CORPUS))
    for _ in range(chance.choice((1, 1, 2, 4))):
        value = _with_mutation(chance, value)
    data = _encoded(value)
    if chance.random() < 0.3:
        data = _with_other_bytes(chance, data)
    path.write_bytes(data)
    return f"{len(data)} bytes: {data[:200]!r}"


def _encoded(value: Any) -> bytes:
    try:
        return json.dumps(value).encode()
    except RecursionError:
        return b'{"hooks": ' + b"[" * 5000 + b"]" * 5000 + b"}"


def _with_mutation(chance: random.Random, value: Any) -> Any:
    """Return the value with another value, key or text somewhere in it."""
    places = list(_places(value))
    if not places:
        return value
    parent, key = chance.choice(places)
    old = parent[key]
    match chance.randrange(5):
        case 0 if isinstance(parent, dict):
            new = chance.choice(_TEXTS)(chance)
            parent[new] = parent.pop(key)
        case 1:
            parent[key] = chance.choice(_VALUES)(chance)
        case 2 if isinstance(old, str):
            at = chance.randrange(len(old) + 1)
            parent[key] = old[:at] + chance.choice(_TEXTS)(chance) + old[at:]
        case 3 if isinstance(old, dict):
            old.update(
                {f"{chance.choice('abc')}{number}": 1 for number in range(chance.choice((1, 90, 4000)))}
            )
        case _:
            parent[key] = chance.choice(_TEXTS)(chance)
    return value


def _places(value: Any) -> Any:
    """Yield every object or list within a value with each of its keys."""
    waiting = [value]
    for each in waiting:
        if isinstance(each, dict | list):
            keys = list(each) if isinstance(each, dict) else range(len(each))
            for key in keys:
                yield each, key
                waiting.append(each[key])


def _with_other_bytes(chance: random.Random, data: bytes) -> bytes:
    at = chance.randrange(len(data) + 1)
    match chance.randrange(6):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + bytes(chance.randrange(256) for _ in range(4)) + data[at:]
        case 2:
            return data[:at] + data[at + chance.randrange(1, 20) :]
        case 3:
            return data.replace(b'"hooks"', b'"hooks": {}, "hooks"', 1)
        case 4:
            return b"\xff\xfe" + data.decode().encode("utf-16-le", "replace")
        case _:
            return data + b" " * chance.choice((10, 70_000)) + b"// end"


def _write_special(chance: random.Random, path: Path) -> str:
    kind = chance.choice(("pipe", "folder", "loop", "device", "socket", "hidden", "huge", "missing"))
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "loop":
            path.symlink_to(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "socket":
            path.symlink_to("/proc/self/mem")
        case "hidden":
            path.touch(mode=0)
        case "huge":
            path.touch()
            os.truncate(path, 2**40)
    return kind


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
