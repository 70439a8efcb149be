"""The JDK's HttpClient, with which a program calls the API by hand: a client without an SDK."""

import json as jsonlib
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from support.clients.interface import Json, Shown, get_weather
from support.clients.versions import jdk_version
from support.places import PROJECT
from support.programs.commands import run_command
from support.wire import SSE

_CALL = PROJECT / "tests" / "e2e" / "jdk" / "Call.java"
_PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_WEATHER = {"name": "get_weather", "parameters": _PARAMETERS}


async def call_with_jdk(*calls: tuple[str, str, str]) -> list[str]:
    """Make calls, each a method, a URL and a body, with one client. The lines that it printed."""
    if not shutil.which("javac"):
        pytest.skip("needs a JDK; on Debian: default-jdk-headless")
    words = [word for call in calls for word in call]
    ran = await run_command(["java", str(_CALL), *words], Path("/"), {"LC_ALL": "C.UTF-8"})
    assert ran.exit_code == 0, ran.stderr
    return ran.stdout.split("\n")[:-1]


@dataclass(frozen=True)
class Jdk:
    """It streams. A JDK has no parser of JSON, so what it received is parsed here."""

    denial: ClassVar[str] = "403"
    traits: ClassVar[set[str]] = {"json", "stream", "tools", "delete"}
    call: ClassVar[Json] = {"name": "get_weather", "args": {"city": "Oslo"}}

    @property
    def version(self) -> str:
        return jdk_version()

    async def ask(self, base_url: str, prompt: str, folder: Path, *, json: bool = False) -> Shown:
        wants_json = {"generationConfig": {"responseMimeType": "application/json"}}
        options = wants_json if json else {"tools": [{"functionDeclarations": [_WEATHER]}]}
        contents: list[Json] = [{"role": "user", "parts": [{"text": prompt}]}]
        text = ""
        while True:
            body = jsonlib.dumps({"contents": contents, **options})
            status, *lines = await call_with_jdk(("POST", base_url + SSE, body))
            if not status.startswith("200"):
                error = jsonlib.loads("".join(lines))["error"]
                return Shown(text + error["message"], str(error["code"]))
            parts = _parts(lines)
            text += "".join(part.get("text", "") for part in parts)
            calls = [part["functionCall"] for part in parts if "functionCall" in part]
            if not calls:
                return Shown(text)
            results = [
                {"functionResponse": {"name": call["name"], "response": _result(call)}} for call in calls
            ]
            contents += [{"role": "model", "parts": parts}, {"role": "user", "parts": results}]

    async def delete(self, base_url: str) -> int:
        status, *_ = await call_with_jdk(("DELETE", f"{base_url}/v1beta/cachedContents/1", "{}"))
        assert status.startswith("200"), status
        return 1


def _result(call: Json) -> Json:
    return {"result": get_weather(**call["args"])}


def _parts(lines: list[str]) -> list[Json]:
    """The parts of all events of a stream."""
    events = [jsonlib.loads(line.removeprefix("data: ")) for line in lines if line]
    return [part for event in events for part in event["candidates"][0].get("content", {}).get("parts", [])]
