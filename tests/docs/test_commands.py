"""The command lines of the README and of docs/ do what the pages say: run as they are printed.

Only what a page cannot know is replaced: ports, a receipt's ID, and folders outside of the test's own.
"""

import asyncio
import json
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.hooks.settings import write_file
from support.pages import ALL_BLOCKS, block_of, write_guard
from support.programs.program import COMMAND, Ended, environment, run, serving
from support.wire import HI, KEY, UNARY, post

from hookgate.hooks import load_settings

pytestmark = pytest.mark.e2e

NOT_RUN = {
    "make demo, pip install, pipx": "they install packages",
    "hookgate run -- gemini": "tests/e2e/test_gemini_cli.py; `run -- python` is run here",
    "hookgate replay": "the months of traffic that it shows are nobody's; tests/proxy/cli/test_replay.py",
    "python -m benchmarks": "what they print is measured on one machine",
}
"""The command lines that are not run here, and why; test_blocks.py has the parser of `hookgate` take them."""

NO_RM: dict[str, Any] = block_of("docs/policies.md", '  {"name": "no-rm"').value

Shell = Callable[..., Any]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder with an empty home, in which `hookgate` and `python` are this environment's."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, words in (("hookgate", COMMAND), ("python", (sys.executable,)), ("python3", (sys.executable,))):
        (programs / name).write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        (programs / name).chmod(0o755)
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOOKGATE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("GEMINI_API_KEY", "any")
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path / "work")


async def shell(text: str, **env: str) -> Ended:
    """Run a block with bash."""
    pipe = asyncio.subprocess.PIPE
    state = {"HOOKGATE_STATE": os.environ["HOOKGATE_STATE"]}
    process = await asyncio.create_subprocess_exec(
        *("bash", "-c", text), env=environment({**state, **env}), stdin=pipe, stdout=pipe, stderr=pipe
    )
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    return Ended(process.returncode or 0, out.decode(), err.decode())


async def hookgate(line: str, **env: str) -> Ended:
    """Run a line that is one `hookgate` command, maybe into a file, without the cost of a new interpreter."""
    command, _, file = line.partition(" > ")
    ended = await run(*words_of(command), env={"HOOKGATE_STATE": os.environ["HOOKGATE_STATE"], **env})
    if file:
        write(file, ended.out)
    return ended


def write(file: str, text: str) -> None:
    Path(file).write_text(text)


def read(file: str | Path) -> str:
    return Path(file).read_text()


def words_of(line: str) -> tuple[str, ...]:
    """The words of a `hookgate` command line after its first."""
    return tuple(shlex.split(line, comments=True))[1:]


STOPPED = "This conversation contains a private key. Start a new one without it."


async def test_the_guard_of_the_readme_stops_a_key_before_the_mock_upstream() -> None:
    write_guard(Path("guard"))
    upstream_line = block_of("README.md", "hookgate mock-upstream").text
    serve_line = block_of("README.md", "hookgate serve").text
    allowed, denied = (
        block.text for block in ALL_BLOCKS if block.page == "README.md" and block.text.startswith("curl")
    )
    stand_in = [word.replace(":8788", ":0") for word in words_of(upstream_line)]
    async with serving(*stand_in) as upstream:
        words = [word.replace("http://127.0.0.1:8788", upstream.url) for word in words_of(serve_line)]
        state = {"HOOKGATE_STATE": os.environ["HOOKGATE_STATE"]}
        async with serving(*words, "--listen", "127.0.0.1:0", env=state) as gateway:
            of_the_page = block_of("docs/agents/curl.md", "curl").text
            answered = await shell(
                of_the_page.replace("http://127.0.0.1:8787", gateway.url), GEMINI_API_KEY="any"
            )
            greeted = await shell(allowed.replace("http://127.0.0.1:8787", gateway.url))
            stopped = await shell(denied.replace("http://127.0.0.1:8787", gateway.url))
            listed = await run("hooks", "list", "--hooks", "guard/settings.json", env=state)
            while "stop" not in listed.out:  # the gateway saves it every two seconds
                await asyncio.sleep(0.5)
                listed = await run("hooks", "list", "--hooks", "guard/settings.json", env=state)
    assert "You said: Say good morning." in answered.out
    assert "You said: Hello." in greeted.out
    assert stopped.out == block_of("README.md", '{"usageMetadata"').text.rstrip()
    assert STOPPED in stopped.out
    assert "no-keys" in listed.out
    tried = await run("hooks", "test", "BeforeModel", "--hooks", "guard/settings.json", env=state)
    assert tried.code == 0, tried
    assert "no-keys" in tried.out


async def test_the_guard_of_the_readme_is_not_let_down_by_escapes_and_fails_closed() -> None:
    write_guard(Path("guard"))
    [hook] = load_settings([Path("guard/settings.json")]).hooks()
    assert hook.on_error == "deny"
    assert (
        json.loads((await guarded(r'{"a": {"-----BEGIN PRIVATE KEY\u002d----": 1}}')).out)["continue"]
        is False
    )
    assert json.loads((await guarded(r'["PRIVATE\u0020KEY-----"]')).out)["stopReason"] == STOPPED
    harmless, broken = await guarded('{"a": "PRIVATE KEY"}'), await guarded("{")
    assert (harmless.code, harmless.out, broken.code) == (0, "", 1)


async def guarded(given: str) -> Ended:
    """The end of the README's guard on this input."""
    return await shell(f"printf %s {shlex.quote(given)} | python3 guard/no_keys.py")


async def test_claude_code_s_settings_become_those_of_the_page() -> None:
    before, after = (
        block_of("docs/migrating.md", '    "PreToolUse"'),
        block_of("docs/migrating.md", '    "BeforeTool"'),
    )
    write_file(Path(".claude"), before.text)
    ended = await hookgate(block_of("docs/migrating.md", "hookgate hooks migrate").text)
    assert ended.code == 0, ended
    assert json.loads(read(".gemini/settings.json")) == after.value


async def test_hooks_are_tried_on_a_captured_input_and_on_one_from_a_pipe() -> None:
    write_file(Path(os.environ["HOME"], ".gemini"), NO_RM)
    write_file(Path(), HI, "request.json")
    ended = await shell(block_of("docs/managing-hooks.md", "hookgate hooks test").text)
    assert (ended.code, ended.err) == (0, ""), ended
    assert "no-rm" in ended.out


async def test_an_event_is_denied_by_the_first_policy_of_its_page() -> None:
    settings = write_file(Path(), NO_RM, "policy.json")
    command, shown = block_of("docs/events.md", "curl").text.split("\n\n")
    async with serving("serve", "--listen", "127.0.0.1:0", "--policy", str(settings)) as gateway:
        ended = await shell(command.replace("http://127.0.0.1:8787", gateway.url).replace("…", "any"))
    answer = json.loads(ended.out)
    assert answer.keys() == json.loads(shown).keys()
    assert answer["decision"] == json.loads(shown)["decision"]


@pytest.mark.parametrize(("command", "removed"), [("rm -rf build", False), ("rmdir build", True)])
async def test_a_script_may_use_the_exit_code_of_an_event(command: str, removed: bool) -> None:
    settings = write_file(Path(), NO_RM, "policy.json")
    os.mkdir("build")
    script = block_of("docs/shim-commands.md", 'command="rm -rf build"').text.replace("rm -rf build", command)
    plain = block_of("docs/shim-commands.md", "echo '{").text
    async with serving("serve", "--listen", "127.0.0.1:0", "--policy", str(settings)) as gateway:
        ended = await shell(script, HOOKGATE_URL=gateway.url)
        denied = await shell(plain, HOOKGATE_URL=gateway.url)
    assert (ended.code, "build" in os.listdir()) == ((0, False) if removed else (2, True))
    assert denied.code == 2
    assert json.loads(denied.out)["decision"] == "deny"
    assert denied.err.strip() == json.loads(denied.out)["reason"]


async def test_an_agent_is_pointed_to_a_session_of_its_own() -> None:
    write("agent.py", "import os\nprint(os.environ['GOOGLE_GEMINI_BASE_URL'])\n")
    [line] = [
        line
        for line in block_of("docs/shim-commands.md", "hookgate run").text.splitlines()
        if "agent.py" in line
    ]
    async with serving("serve", "--listen", "127.0.0.1:0") as gateway:
        ended = await hookgate(line, HOOKGATE_URL=gateway.url)
    assert (ended.code, ended.out.strip()) == (0, f"{gateway.url}/s/nightly"), ended


async def test_the_hooks_of_the_shim_are_installed(tmp_path: Path) -> None:
    lines = block_of("docs/shim-commands.md", "hookgate shim install").text.splitlines()
    ended = [await hookgate(f"{line} --yes") for line in lines]  # nobody is here to be asked
    assert [each.code for each in ended] == [0, 0], ended
    assert "BeforeTool" in read(tmp_path / "home/.gemini/settings.json")
    assert "https://gate.example" in read(".claude/settings.json")


async def test_the_records_of_a_call_are_listed_shown_exported_and_verified() -> None:
    state = {"HOOKGATE_STATE": os.environ["HOOKGATE_STATE"]}
    admin = {**state, "HOOKGATE_ADMIN__ADDRESS": "127.0.0.1:0"}
    curl, receipt = block_of("docs/receipts.md", "$ curl").text.replace("$ ", "").splitlines()
    shown = block_of("docs/receipts.md", '  "receipt"').text
    async with serving("mock-upstream") as upstream:
        serve = ("serve", "--listen", "127.0.0.1:0", "--upstream", upstream.url)
        async with serving(*serve, env=admin) as gateway:
            call = (await post(gateway.url, UNARY, HI, KEY)).headers["x-hookgate-receipt"]
            asked = curl.replace("http://localhost:8787", gateway.url).replace("8f0c…", call)
            summary = json.loads((await shell(asked, KEY=KEY["x-goog-api-key"])).out)
            while "open the panel" not in gateway.log:
                await gateway.next_line()
            address = gateway.log.partition("open the panel: http://")[2].partition("/")[0]
            printed = await hookgate(f"{receipt.replace('8f0c…', call)} --admin {address}")
    assert printed.code == 0, printed
    assert call in printed.out
    assert [name for name in summary if f'"{name}":' not in shown] == []
    for line in block_of("docs/audit.md", "hookgate audit list").text.splitlines():
        command = line.replace("2026-05-01", "2020-01-01").replace("2026-06-01", "2100-01-01")
        for part in (" [-f]", "[", "]", " WORD:VALUE …", " --by NAME"):
            command = command.replace(part, "")
        ended = await hookgate(command.replace(" ID", f" {call}"))
        assert ended.code == 0, (command, ended)
        about_calls = not any(part in command for part in (" > ", "verify", "restore", "changes", "report"))
        assert call in ended.out or not about_calls, (command, ended)
    assert call in read("audit.jsonl")
    assert json.loads(read("heads.json"))


async def test_a_policy_is_pushed_and_the_revision_is_in_the_database() -> None:
    write("policy.json", '{"hooks": {}}')
    ended = await hookgate(block_of("docs/policy-revisions.md", "hookgate policy push").text)
    assert ended.code == 0, ended
    listed = await hookgate("hookgate policy history")
    assert "Only Gemini 3" in listed.out


async def test_a_token_of_one_s_own_is_made_and_used(tmp_path: Path) -> None:
    make, serve = (
        block_of("docs/panel.md", "install -d").text.replace("/etc/", f"{tmp_path}/etc/").splitlines()
    )
    assert (await shell(make)).code == 0
    token = tmp_path / "etc/hookgate/admin-token"
    assert (token.stat().st_mode & 0o777, len(token.read_text().strip())) == (0o600, 48)
    variable, *words = shlex.split(serve)
    name, _, value = variable.partition("=")
    admin = {name: value, "HOOKGATE_ADMIN__ADDRESS": "127.0.0.1:0"}
    async with serving(*words[1:], "--listen", "127.0.0.1:0", env=admin) as gateway:
        while "admin listener on" not in gateway.log:
            assert await gateway.next_line(), gateway.log
    assert block_of("docs/panel.md", "open the panel: ").text.partition("#")[0] not in gateway.log


async def test_a_configuration_is_checked_shown_and_described() -> None:
    check, show, schema, doctor = block_of("docs/configuration.md", "hookgate config check").text.splitlines()
    assert (await hookgate(check)).code == 0
    assert "listen.address" in json.loads((await hookgate(show.replace("[--json]", "--json"))).out)
    assert json.loads((await hookgate(schema)).out)["properties"]["listen"]
    command = doctor.partition("#")[0]  # the usual ports may be taken here, and the upstream out of reach
    assert (await hookgate(f"{command} --offline --listen 127.0.0.1:0 --admin off")).code == 0


async def test_the_views_of_the_translator_give_an_edited_body() -> None:
    names: dict[str, Any] = {"body": HI}
    code = compile(block_of("docs/translator.md", "from hookgate.translator").text, "translator.md", "exec")
    exec(code, names)  # noqa: S102  # our own page
    assert names["body"]["contents"][-1]["parts"] == [{"text": "…"}]


async def test_the_tutorial_leads_to_a_rule_of_one_s_own(tmp_path: Path) -> None:
    """Every block of the page in its order: the servers as they are printed, but for their ports."""
    texts = [block.text for block in ALL_BLOCKS if block.page == "docs/tutorial.md"]
    install, set_up, upstream_line, serve_line, *steps = texts
    assert "pip install" in install  # the only block that is not run here
    work = tmp_path / "home/hookgate-tutorial"
    described = await shell(set_up)
    assert described.code == 0, described
    os.chdir(work)

    stand_in = [word.replace(":8788", ":0") for word in words_of(upstream_line)]
    change_folder, serve_line = serve_line.splitlines()
    assert change_folder == "cd ~/hookgate-tutorial"
    state = {"HOOKGATE_STATE": os.environ["HOOKGATE_STATE"]}
    async with serving(*stand_in) as upstream:
        words = [word.replace("http://127.0.0.1:8788", upstream.url) for word in words_of(serve_line)]
        admin = {**state, "HOOKGATE_ADMIN__ADDRESS": "127.0.0.1:0"}
        async with serving(*words, "--listen", "127.0.0.1:0", env=admin) as gateway:
            while "open the panel" not in gateway.log:
                await gateway.next_line()
            address = gateway.log.partition("open the panel: http://")[2].partition("/")[0]
            variables = {"HOOKGATE_URL": gateway.url, "HOOKGATE_ADMIN__ADDRESS": address}
            out = []
            for step in steps:
                applied = gateway.log.count("settings reloaded")
                ended = await shell(step.replace("http://127.0.0.1:8787", gateway.url), **variables)
                assert ended.code == 0, (step, ended)
                out.append(ended.out)
                while "gateway/settings.json" in step and gateway.log.count("settings reloaded") == applied:
                    assert await gateway.next_line(), gateway.log
    masked, _, _, checked, denied, _, observed, receipt, _ = out
    assert "You said: Is [AWS_ACCESS_KEY] still valid?" in masked
    assert "3 hooks checked, 0 problems found." in checked
    assert "=== no-rockets" in checked
    assert checked.endswith("=== verdict: stop, reason: Rockets are not discussed here.\n")
    assert "Rockets are not discussed here." in denied
    assert "You said: How do rockets fly?" in observed
    [hook] = [hook for hook in json.loads(receipt)["hooks"] if hook["hook"] == "no-rockets"]
    assert (hook["mode"], hook["decisions"]) == ("observe", {"stop": 1})


async def test_the_example_of_what_redaction_finds_prints_what_the_page_says() -> None:
    lines = block_of("docs/redaction-scope.md", "$ hookgate redact scan").text.splitlines()
    write_file, scan, *printed = lines
    await shell(write_file.removeprefix("$ "))
    ended = await hookgate(scan.removeprefix("$ "))
    assert ended.code == 1
    assert (ended.out + ended.err).splitlines() == printed
