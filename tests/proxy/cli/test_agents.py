"""`hookgate agents ...`: the printed settings, and the report about calls that arrive or do not."""

import asyncio
import json
import re
import shlex
import sys
from pathlib import Path

import pytest
from support.bodies import chat
from support.gateway.loopback import says
from support.gateway.panel import TOKEN, Paneled, panel_gateway
from support.places import PROJECT
from support.programs import program
from support.programs.commands import run_command
from support.programs.program import Ended, run
from support.wire import HI, SSE, UNARY, post

from hookgate.proxy.cli.agents.command import _Check
from hookgate.proxy.cli.agents.known import AGENTS, Agent

URL = "https://gate.example.org/team"
GUARD = {"BeforeModel": [{**says({"decision": "deny", "reason": "Not here."}), "name": "guard"}]}
LISTENS = {"BeforeModel": [{**says({}), "name": "listens"}]}
CHAT = "/v1beta/openai/chat/completions"
VERTEX = "/v1/publishers/google/models/gemini-2.5-flash:generateContent"


async def test_every_agent_is_listed_with_what_was_tested() -> None:
    listed = await run("agents", "list")
    assert listed.code == 0, listed.err
    for agent in AGENTS:
        [line] = [line for line in listed.out.splitlines() if line.startswith(f"{agent.name} ")]
        assert line.endswith(agent.tested)


async def test_the_agents_are_json_for_programs() -> None:
    listed = await run("agents", "list", "--json")
    found = [json.loads(line) for line in listed.out.splitlines()]
    assert [each["name"] for each in found] == [agent.name for agent in AGENTS]
    assert {*found[0]} == {"name", "title", "tested", "apis", "clients", "needs_google_login"}


CLIENTS = (PROJECT / "docs/clients.md").read_text()


def row_of(agent: Agent) -> str:
    """The agent's row in the table of clients."""
    [row] = [line for line in CLIENTS.splitlines() if line.startswith(f"| `{agent.name}` |")]
    return row


def page_of(agent: Agent) -> str:
    """The agent's page, to which its row has a link."""
    [name] = re.findall(r"\(agents/([a-z-]+\.md)\) \|$", row_of(agent))
    return (PROJECT / "docs/agents" / name).read_text()


def test_the_page_about_clients_has_the_same_rows() -> None:
    [shown] = re.findall(r"<!-- begin: agents -->\n\n(.*)\n\n<!-- end: agents -->", CLIENTS, re.DOTALL)
    pages = dict(re.findall(r"^\| `(.*?)` .* (\[[^]]+\]\(agents/[a-z-]+\.md\)) \|$", CLIENTS, re.MULTILINE))
    rows = [
        f"| `{agent.name}` | {agent.title} | {agent.base_url} | {agent.login} | {pages.get(agent.name)} |"
        for agent in AGENTS
    ]
    table = "\n".join(["| name | client | base URL | login | page |", "|---|---|---|---|---|", *rows])
    assert shown == table, f"put this between the marks:\n{table}"
    names = {page.name for page in (PROJECT / "docs/agents").glob("*.md")}
    assert names == set(re.findall(r"\(agents/([a-z-]+\.md)\)", CLIENTS))


def indented(text: str) -> str:
    """The text as a block of Markdown."""
    return "".join(f"    {line}".rstrip() + "\n" for line in text.splitlines())


@pytest.mark.parametrize("agent", [pytest.param(agent, id=agent.name) for agent in AGENTS])
def test_the_page_of_an_agent_has_the_settings_that_are_printed(agent: Agent) -> None:
    page = page_of(agent)
    url = "https://gate.example" if agent.https == "always" else "http://127.0.0.1:8787"
    settings = [
        *(f"    export {name}={value}\n" for name, value in agent.variables(url, "YOUR_KEY").items()),
        *(indented(text).strip() for text in agent.settings_files(url, "YOUR_KEY").values()),
        indented(agent.program(url, "YOUR_KEY")),
        f"\n    hookgate agents check {agent.name}",
    ]
    assert [each for each in settings if each not in page] == []


@pytest.mark.parametrize(
    "path", [pytest.param(each, id=each.stem) for each in (PROJECT / "docs/agents").iterdir()]
)
def test_the_pages_of_all_agents_have_the_same_sections(path: Path) -> None:
    sections = re.findall(r"^## (.+)", path.read_text(), re.MULTILINE)
    assert sections[:2] == ["Connect", "Denials"]
    assert sections[2:] in ([], ["Pitfalls"], ["Sessions", "Pitfalls"])


@pytest.mark.parametrize("agent", [pytest.param(agent, id=agent.name) for agent in AGENTS])
async def test_the_settings_name_the_gateway_and_a_place_for_the_key(agent: Agent) -> None:
    printed = await run("agents", "show", agent.name, "--gateway", f"{URL}/")
    assert printed.code == 0, printed.err
    for name, value in agent.variables(URL, "YOUR_KEY").items():
        assert f"\n    export {name}={value}\n" in printed.out
    for path, text in agent.settings_files(URL, "YOUR_KEY").items():
        assert f"\nIn {path}:\n{indented(text)}" in printed.out
    code = [f"    {line}".rstrip() for line in agent.program(URL, "YOUR_KEY").splitlines()]
    assert "\n".join(code) in printed.out
    assert URL in printed.out
    assert f"{URL}/\n" not in printed.out
    assert ("YOUR_KEY is your Google API key." in printed.out) is (agent.name != "gemini-cli-login")
    assert agent.tested in printed.out


def configured(folder: Path, text: str) -> tuple[str, str]:
    file = folder / "hookgate.toml"
    file.write_text(text)
    return "--config", str(file)


async def test_the_address_is_the_configured_one(tmp_path: Path) -> None:
    flags = configured(tmp_path, "[listen]\naddress = '0.0.0.0:8000'\n[clients]\nopen = true\n")
    printed = await run("agents", "show", "gemini-cli", *flags)
    assert "GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:8000\n" in printed.out
    assert "This address works on this machine only" in printed.out
    assert "It requires https" not in printed.out
    certificate = configured(tmp_path, "[listen]\naddress = 'gate.local:8443'\ncertificate = 'c.pem'\n")
    printed = await run("agents", "show", "antigravity", *certificate)
    assert "AGY_LLM_GATEWAY_URL=https://gate.local:8443\n" in printed.out
    assert "It requires https" not in printed.out
    behind = configured(tmp_path, "[listen]\naddress = '127.0.0.1:0'\nurl = 'https://host.example/gemini'\n")
    assert "https://host.example/gemini" in (await run("agents", "show", "gemini-cli", *behind)).out
    printed = await run("agents", "show", "gemini-cli", env={"HOOKGATE_URL": "http://10.0.0.1"})
    assert "GOOGLE_GEMINI_BASE_URL=http://10.0.0.1\n" in printed.out
    assert "It requires https, except on this machine: " in printed.out
    assert "It requires https: " in (await run("agents", "show", "antigravity")).out


async def test_a_gateway_that_issues_keys_asks_for_one_of_them(tmp_path: Path) -> None:
    flags = configured(tmp_path, "[clients]\nissued_keys = true\n[upstream]\ngemini_key = 'AIza-example'\n")
    assert (
        "YOUR_KEY is a key from `hookgate keys create`."
        in (await run("agents", "show", "litellm", *flags)).out
    )
    login = (await run("agents", "show", "gemini-cli-login", *flags)).out
    assert "A Google login cannot be replaced with an issued key" in login


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (
            (
                "show",
                "nope",
            ),
            "'nope' is not an agent that hookgate knows; choose one of: gemini-cli, ",
        ),
        (("show", "litellm", "--write", "f"), "litellm has no settings for device management"),
        (
            ("show", "antigravity", "--write", "f", "--gateway", "http://h"),
            "antigravity requires https, not http://h",
        ),
        (("show", "antigravity", "--write", "f", "--gateway", URL), "--write needs a key on stdin"),
        (("show", "litellm", "--gateway", 'http://h/";id;"'), "must not contain quotes or backslashes"),
        (("show", "litellm", "--gateway", "gate"), "'gate' is not a URL; write it like http"),
        (("show", "litellm", "--gateway", "http://a/?key=x"), "an address only, without a key"),
        (("check", "litellm", "--admin", "127.0.0.1:9"), "no gateway answers at 127.0.0.1:9"),
    ],
)
async def test_a_mistake_is_reported_in_one_line(words: tuple[str, ...], complaint: str) -> None:
    ended = await run("agents", *words)
    assert ended.code == 1
    assert complaint in ended.complaint


async def test_the_file_for_device_management_is_written_once_and_is_private(tmp_path: Path) -> None:
    words = f"agents show antigravity --gateway {URL} --write admin_settings.json"
    command = f"echo hgk_1.secret | {sys.executable} -m hookgate.proxy {words}"
    written = await run_command(["/bin/sh", "-c", command], tmp_path)
    assert written.stdout == "wrote admin_settings.json, which contains the key\n", written.stderr
    file = tmp_path / "admin_settings.json"
    assert json.loads(file.read_text()) == {
        "gateway": {"enabled": True, "url": URL, "apiKey": "hgk_1.secret", "wireProtocol": "genai"},
        "auth": {"suppressInteractiveLogin": True},
    }
    assert file.stat().st_mode & 0o777 == 0o600
    again = await run_command(["/bin/sh", "-c", command], tmp_path)
    assert again.stderr == "hookgate: cannot create admin_settings.json: File exists\n"
    assert again.exit_code == 1


async def test_a_port_that_is_chosen_at_start_cannot_be_printed(tmp_path: Path) -> None:
    ended = await run(
        "agents", "show", "litellm", *configured(tmp_path, "[listen]\naddress = '127.0.0.1:0'\n")
    )
    assert "set it with --gateway URL" in ended.complaint


async def test_text_of_the_address_stays_one_word_of_the_shell() -> None:
    printed = (await run("agents", "show", "gemini-cli", "--gateway", "http://h/$(id)")).out
    [line] = re.findall(r"export GOOGLE_GEMINI_BASE_URL=.*", printed)
    assert shlex.split(line) == ["export", "GOOGLE_GEMINI_BASE_URL=http://h/$(id)"]


# ---- --check


async def checked(gateway: Paneled, name: str, *calls: tuple[str, str], seconds: str = "20") -> Ended:
    """What the check says while calls arrive, each a User-Agent and a target, until it has ended."""
    words = ("agents", "check", name, "--gateway", gateway.url, "--admin", gateway.admin)
    ending = asyncio.create_task(
        program.run(*words, "--timeout", seconds, env={"HOOKGATE_ADMIN__TOKEN": TOKEN})
    )
    while not ending.done():
        for agent, target in calls:
            body = chat.HI if "/openai/" in target else HI
            await post(gateway.url, target, body, {"x-goog-api-key": "k", "user-agent": agent})
        await asyncio.wait((ending,), timeout=0.1)
    return ending.result()


AGY = "google-antigravity-sdk/0.1.22 python/3.11.7"


@pytest.mark.parametrize(
    ("name", "client", "target"),
    [
        ("antigravity-sdk", AGY, SSE),
        ("gemini-cli", "GeminiCLI-tui/0.61.0/gemini-2.5-flash (linux)", f"/s/mine{UNARY}"),
        ("gemini-cli-vertex", "GeminiCLI-tui/0.61.0", VERTEX),
        ("google-genai", "google-genai-sdk/3.4.0 gl-python/3.11.7", VERTEX),
        ("openai", "AsyncOpenAI/Python 3.54.0", CHAT),
        ("openai-js", "OpenAI/JS 6.49.0", CHAT),
    ],
)
async def test_a_call_that_arrives_is_shown_with_the_hooks_that_judged_it(
    name: str, client: str, target: str, tmp_path: Path
) -> None:
    async with panel_gateway(tmp_path, LISTENS) as gateway:
        ended = await checked(gateway, name, ("curl/8", UNARY), (client, target))
    assert ended.code == 0, ended
    arrived, judged, outcome, *_ = ended.out.splitlines()[1:]
    path = target.removeprefix("/s/mine").removesuffix("?alt=sse")
    assert arrived.startswith(
        f"arrived: {client.partition('/')[0]} at {path}, model gemini-2.5-flash, session "
    )
    assert judged == "judged:  by listens (BeforeModel)"
    assert outcome == "outcome: answered, with status 200"


async def test_a_denial_has_arrived_as_well(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, GUARD, audit={}) as gateway:
        ended = await checked(gateway, "antigravity-sdk", (AGY, UNARY))
    assert ended.code == 0, ended
    assert "outcome: denied, with status 403\nhooks:   guard\nreason:  Not here.\n" in ended.out


async def test_a_call_that_no_hook_sees_is_not_called_judged(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path) as gateway:
        ended = await checked(gateway, "litellm", ("litellm/1", UNARY))
    assert "judged:  no hook ran for this call\n" in ended.out


@pytest.mark.parametrize("audit", [None, {}], ids=["memory", "audit"])
async def test_a_request_whose_path_is_not_served_is_reported_with_the_reason(
    audit: dict[str, str] | None, tmp_path: Path
) -> None:
    async with panel_gateway(tmp_path, audit=audit) as gateway:
        ended = await checked(gateway, "litellm", ("litellm/1", f"/v1beta{UNARY}"), seconds="2")
    assert ended.code == 1
    assert ended.out.splitlines()[2:] == [
        "These requests arrived, and were refused:",
        "    /v1beta/v1beta/models/…:generateContent, with status 403: ROUTE_NOT_ALLOWED: The path begins "
        "with two API versions, v1beta and v1beta: the client adds one to its base URL. The base URL must "
        "not end with /v1beta; remove it there.",
    ]


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param([("GeminiCLI/0.61", VERTEX)], id="another API"),
        pytest.param([("curl/8", UNARY)], id="another client"),
    ],
)
async def test_calls_of_others_are_named_when_none_of_the_agent_has_arrived(
    calls: list[tuple[str, str]], tmp_path: Path
) -> None:
    async with panel_gateway(tmp_path) as gateway:
        ended = await checked(gateway, "gemini-cli", *calls, seconds="1.5")
    assert ended.code == 1
    assert "no call of Gemini CLI, API key arrived\nThese calls arrived, but" in ended.out
    assert f"    {calls[0][0].partition('/')[0]} at {calls[0][1]}, model" in ended.out


async def test_without_any_call_it_says_what_to_check(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path) as gateway:
        await post(gateway.url, UNARY, HI, {"user-agent": "GeminiCLI/0.61"})  # before the check
        ended = await checked(gateway, "gemini-cli", seconds="0.2")
    assert ended.code == 1
    assert "- the shell that starts it exports GOOGLE_GEMINI_BASE_URL, GEMINI_API_KEY;" in ended.out
    assert "- ~/.gemini/settings.json has the printed settings;" in ended.out


@pytest.mark.parametrize("agent", [pytest.param(agent, id=agent.name) for agent in AGENTS])
def test_the_checklist_has_only_what_the_agent_needs(
    agent: Agent, capsys: pytest.CaptureFixture[str]
) -> None:
    _Check(agent, URL, ("127.0.0.1", 8788), None)._explain([], [])
    lines = capsys.readouterr().out.splitlines()
    exported = [f"- the shell that starts it exports {', '.join(agent.environment)};"]
    assert [line for line in lines if "exports" in line] == (exported if agent.environment else [])
    assert [line for line in lines if "printed settings" in line] == [
        f"- {path} has the printed settings;" for path in agent.settings_files(URL, "key")
    ]


async def test_the_check_needs_the_token(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path) as gateway:
        words = ("agents", "check", "litellm", "--gateway", gateway.url, "--admin", gateway.admin)
        ended = await run(*words, env={"HOOKGATE_ADMIN__TOKEN": "another-token-of-length"})
    assert "the admin listener answers: This is not the admin token." in ended.complaint
