"""`hookgate agents ...`: lists agents, prints the settings of agents, and waits for their calls."""

import argparse
import asyncio
import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hookgate.proxy.admin.access import admin_token_source, find_token
from hookgate.proxy.cli.agents.known import AGENTS, Agent, find_agent
from hookgate.proxy.cli.receipts import admin_address, ask_admin
from hookgate.proxy.cli.tables import outcome_lines
from hookgate.proxy.config import Config, read_config
from hookgate.proxy.config.reading import state_folder
from hookgate.proxy.config.values import host_and_port, is_loopback
from hookgate.shim.command.gateway import URL, GatewayAddress
from hookgate.translator.fields import JsonObject

PLACEHOLDER = "YOUR_KEY"
"""The placeholder for the client's key in printed settings."""

_KEY = re.compile(r"[A-Za-z0-9._~+/=:-]{1,512}")
"""Keys that stay as they are in JSON."""

_PAUSE = 0.5
"""Seconds between two queries for the gateway's calls."""
_MAX_CALLS = 200
"""The maximum number of calls that a query returns; if more end within `_PAUSE`, one may be missed."""
_EXCEPT = {"elsewhere": ", except on this machine"}
_WILDCARDS = ("0.0.0.0", "::")  # noqa: S104  # only compared


async def run_agents(args: argparse.Namespace) -> int:
    """List agents, print one's settings, or wait for its calls.

    Returns 1 if no call of the agent arrived, or if it was refused, else 0. Raises ValueError, whose message
    contains a remedy.
    """
    if args.agents_command == "list":
        for line in _listed_as_json() if args.json else _listed():
            print(line)
        return 0
    agent = find_agent(args.name)
    config = read_config(vars(args)).config
    url = _gateway_url(args.gateway, config)
    if args.agents_command == "check":
        address = admin_address(args.admin, config.admin)
        token = admin_token_source(config.admin) or find_token(state_folder(config.hooks), address)
        return await _Check(agent, url, address, token).run(args.timeout)
    if args.write is not None:
        _write_managed_settings(agent, url, args.write)
        return 0
    for line in agent_settings(agent, url, config):
        print(line)
    return 0


def _listed() -> Iterator[str]:
    width = max(len(agent.name) for agent in AGENTS)
    for agent in AGENTS:
        yield f"{agent.name.ljust(width)}  {_plain(agent.title)}. {agent.tested}"
    yield ""
    yield "`hookgate agents show NAME` prints its settings; `hookgate agents check NAME` waits for its calls."


def _listed_as_json() -> Iterator[str]:
    for agent in AGENTS:
        listed = {
            "name": agent.name,
            "title": _plain(agent.title),
            "tested": agent.tested,
            "apis": agent.apis,
            "clients": agent.clients,
            "needs_google_login": agent.needs_google_login,
        }
        yield json.dumps(listed, ensure_ascii=False)


def _plain(markdown: str) -> str:
    return markdown.replace("`", "")


def _gateway_url(flag: str | None, config: Config) -> str:
    """Return the base URL of the gateway. Raises ValueError if it is unknown."""
    if named := flag or os.environ.get(URL) or config.listen.url:
        if set(named) & set("\"'\\"):
            raise ValueError("the gateway's URL must not contain quotes or backslashes; encode them")
        return GatewayAddress(named).url
    host, port = host_and_port(config.listen.address)
    if port == 0:
        raise ValueError(
            "listen.address has port 0, so the gateway's port is unknown; set it with --gateway URL"
        )
    scheme = "https" if config.listen.certificate else "http"
    reached = "127.0.0.1" if host in _WILDCARDS else host
    return GatewayAddress(f"{scheme}://{f'[{reached}]' if ':' in reached else reached}:{port}").url


def agent_settings(agent: Agent, url: str, config: Config) -> Iterator[str]:
    """Yield the lines of the settings that make the agent use the gateway at `url`."""
    issued = config.clients.issued_keys
    yield _plain(agent.title)
    yield agent.tested
    if agent.environment:
        yield from ("", "In the shell that starts it:")
        variables = agent.variables(url, PLACEHOLDER)
        yield from (f"    export {name}={shlex.quote(value)}" for name, value in variables.items())
    for path, text in agent.settings_files(url, PLACEHOLDER).items():
        yield from ("", f"In {path}:", *(f"    {line}" for line in text.splitlines()))
    if agent.code:
        yield from ("", "In its program:")
        yield from (f"    {line}".rstrip() for line in agent.program(url, PLACEHOLDER).splitlines())
    if agent.managed_file:
        yield from ("", "Or, in a file that device management rolls out:")
        yield from (f"    {line}" for line in agent.managed_settings(url, PLACEHOLDER).splitlines())
    yield ""
    if not agent.needs_google_login:
        yield f"{PLACEHOLDER} is {'a key from `hookgate keys create`' if issued else 'your Google API key'}."
    elif issued:
        yield "A Google login cannot be replaced with an issued key; this gateway may refuse it."
    host = GatewayAddress(url).host
    if not url.startswith("https://") and (
        agent.https == "always" or (agent.https and not is_loopback(host))
    ):
        yield f"It requires https{_EXCEPT.get(agent.https, '')}: set listen.certificate, or use a TLS proxy."
    if is_loopback(host):
        yield "This address works on this machine only; for others, set --gateway URL."
    yield from agent.notes
    yield f"To see whether its calls arrive: hookgate agents check {agent.name}"


def _write_managed_settings(agent: Agent, url: str, file: Path) -> None:
    """Write the agent's settings for device management to a new file that only this user can read.

    Raises ValueError if the agent has no such settings, or if the URL, the key or the file is unusable.
    """
    if not agent.managed_file:
        raise ValueError(f"{agent.name} has no settings for device management")
    if not url.startswith("https://"):
        raise ValueError(
            f"{agent.name} requires https, not {url}; set its address with --gateway https://..."
        )
    key = sys.stdin.readline().strip()
    if not _KEY.fullmatch(key):
        raise ValueError("--write needs a key on stdin, such as from `hookgate keys create`")
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise ValueError(f"cannot create {file}: {error.strerror}") from None
    with open(descriptor, "w") as written:
        written.write(agent.managed_settings(url, key))
    print(f"wrote {file}, which contains the key")


@dataclass(frozen=True)
class _Check:
    """Waits for a call of an agent, by the calls that the gateway shows to operators."""

    agent: Agent
    url: str
    address: tuple[str, int]
    token: str | None

    async def run(self, seconds: float) -> int:
        seen = {call["id"] for call in await self._calls()}
        before = {request["id"] for request in await self._refused()}
        print(
            f"waiting {seconds:g} seconds for a call of {_plain(self.agent.title)} at {self.url}", flush=True
        )
        others: dict[str, None] = {}
        refused: dict[str, None] = {}
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while True:
            for call in reversed(await self._calls()):
                if call["id"] in seen:
                    continue
                seen.add(call["id"])
                if self.agent.recognizes(str(call["client"]), str(call["path"])):
                    return await self._tell(call)
                if call["path"]:
                    others[_line(call)] = None
            for request in reversed(await self._refused()):
                if request["id"] not in before:
                    refused[_refused_line(request)] = None
            if (left := deadline - loop.time()) <= 0:
                break
            await asyncio.sleep(min(_PAUSE, left))
        print(f"no call of {_plain(self.agent.title)} arrived")
        self._explain(list(others), list(refused))
        return 1

    async def _calls(self) -> list[JsonObject]:
        found: list[JsonObject] = (await self._get(f"/api/calls?limit={_MAX_CALLS}"))["calls"]
        return found

    async def _refused(self) -> list[JsonObject]:
        """Return the latest requests that were refused before they counted as calls."""
        found: list[JsonObject] = (await self._get("/api/refused"))["requests"]
        return found

    async def _get(self, path: str) -> JsonObject:
        status, body = await asyncio.to_thread(ask_admin, self.address, path, self.token)
        if status != 200:
            raise ValueError(f"the admin listener answers: {body['error']['message']}")
        return body

    async def _tell(self, call: JsonObject) -> int:
        """Print the outcome of the call. Returns 1 if it was refused or failed, else 0."""
        facts = (await self._get(f"/api/calls/{call['id']}"))["facts"]
        print(f"arrived: {_line(call)}")
        print(f"judged:  {_judged(call)}")
        for line in outcome_lines(facts):
            print(line)
        print(f"receipt: {call['id']}")
        return 1 if call["outcome"] in ("refused", "failed") else 0

    def _explain(self, others: list[str], refused: list[str]) -> None:
        for title, lines in (
            ("These requests arrived, and were refused:", refused),
            ("These calls arrived, but do not look like calls of this agent:", others),
        ):
            if lines:
                print("\n    ".join([title, *lines]))
        if others or refused:
            return
        print(f"Nothing arrived. `hookgate agents show {self.agent.name}` prints the settings. Check that")
        if self.agent.environment:
            print(f"- the shell that starts it exports {', '.join(self.agent.environment)};")
        for path in self.agent.files:
            print(f"- {path} has the printed settings;")
        print(f"- {self.url} can be reached from where the agent runs;")
        print(f"- it is the gateway whose admin listener is at {':'.join(map(str, self.address))};")
        print("- the agent did not fail before its first call; a call is shown when it has ended.")


def _refused_line(request: JsonObject) -> str:
    return f"{request['path']}, with status {request['status']}: {request['reason']}"


def _line(call: JsonObject) -> str:
    named = {"model": call["model"], "session": call["session"], "key": call["key"]}
    facts = "".join(f", {name} {value}" for name, value in named.items() if value)
    return f"{call['client'] or 'a client without a name'} at {call['path']}{facts}"


def _judged(call: JsonObject) -> str:
    if call["kind"] != "judged":
        return "no, this route is forwarded without hooks"
    hooks = dict.fromkeys(f"{hook['hook']} ({hook['event']})" for hook in call["hooks"])
    return f"by {', '.join(hooks)}" if hooks else "no hook ran for this call"
