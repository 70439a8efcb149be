"""The `hookgate` command: messages and exit codes if it is started with errors."""

import asyncio
import json
import os
import re
import socket
import sys
from asyncio.subprocess import PIPE
from collections.abc import Callable
from pathlib import Path
from pkgutil import resolve_name

import pytest
from support.gateway.life import until
from support.gateway.loopback import write_settings
from support.hooks.settings import write_file
from support.programs.program import Ended, environment, run, serving
from support.wire import HI, SSE, UNARY, post

from hookgate.proxy import __version__
from hookgate.proxy.cli.main import COMMANDS, Command, run_command

FREE = ("--listen", "127.0.0.1:0", "--admin", "off")
DENY = {"type": "command", "command": "echo 'No.' >&2; exit 2"}

Here = Callable[..., Ended]


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Here:
    """Runs a command in this process, which is quicker; for commands that end before they start anything."""
    for name in os.environ.keys() - environment().keys():
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOOKGATE_CONFIG", os.devnull)

    def run_here(*arguments: str) -> Ended:
        try:
            code = run_command(arguments)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        return Ended(code, *capsys.readouterr())

    return run_here


async def test_it_tells_its_version() -> None:
    ended = await run("--version")
    assert (ended.code, ended.out) == (0, f"hookgate {__version__}\n")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_each_command_of_the_table_has_its_functions(command: Command) -> None:
    if command.name == "demo":
        pytest.importorskip("google.genai")
    assert callable(resolve_name(command.run))
    assert command.add_arguments is None or callable(resolve_name(command.add_arguments))


async def test_the_list_of_commands_loads_none_of_them() -> None:
    """What they import would make each command, and the help, several times as slow."""
    script = (
        "import sys\n"
        "from hookgate.proxy.cli.main import run_command\n"
        "try: run_command(['--help'])\n"
        "finally: print(*sys.modules, file=sys.stderr)\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdout=PIPE, stderr=PIPE, env=environment()
    )
    out, modules = await process.communicate()
    assert (process.returncode, b"COMMAND" in out) == (0, True)
    assert not {b"aiohttp", b"pydantic", b"sqlalchemy", b"hookgate.hooks"} & set(modules.split())


_OF_CALLS = "aiohttp prometheus_client watchfiles hookgate.hooks.engine hookgate.proxy.calls"
_OF_HOOKS = "hookgate.hooks.events hookgate.hooks.settings.configs"
_RARE = "alembic google opentelemetry psycopg hookgate.hooks.policies.redact"


@pytest.mark.parametrize(
    ("command", "unused"),
    [
        (
            "keys list",
            f"{_OF_CALLS} {_OF_HOOKS} yarl hookgate.proxy.audit.ledger hookgate.proxy.observe.record",
        ),
        ("audit list", f"{_OF_CALLS} {_OF_HOOKS} yarl hookgate.proxy.observe.record"),
        ("tools list", _OF_CALLS),
        ("hooks list", "aiohttp prometheus_client sqlalchemy watchfiles hookgate.proxy.calls"),
        ("init --list", f"{_OF_CALLS} pydantic sqlalchemy hookgate.hooks.settings"),
        ("event --help", f"{_OF_CALLS} argparse asyncio pydantic sqlalchemy hookgate.hooks.settings"),
    ],
)
async def test_a_command_loads_nothing_that_only_others_use(
    command: str, unused: str, tmp_path: Path
) -> None:
    """With the engine and what calls need, most commands would take twice as long."""
    script = (
        "import sys\n"
        "from hookgate.proxy.__main__ import main\n"
        "try: sys.exit(main())\n"
        "finally: print(*sys.modules, file=sys.stderr)\n"
    )
    env = {**environment(), "HOOKGATE_CONFIG": os.devnull, "HOOKGATE_STATE": str(tmp_path)}
    await run("keys", "create", "alice", "--state", str(tmp_path))  # so that there is something to list
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, *command.split(), stdout=PIPE, stderr=PIPE, env=env
    )
    _, modules = await process.communicate()
    assert process.returncode == 0
    assert set(f"{unused} {_RARE}".split()) & set(modules.decode().split()) == set()


def test_its_help_names_the_commands_and_every_option(here: Here) -> None:
    overview = here("--help").out
    assert all(command in overview for command in ("serve", "config", "keys", "hooks", "mock-upstream"))
    options = here("serve", "--help").out
    for name in ("listen", "upstream", "hooks"):
        assert f"--{name}" in options
        assert f"HOOKGATE_{name.upper()}" in options


@pytest.mark.parametrize(
    ("arguments", "usage"),
    [
        ((), "hookgate [-h]"),
        (("reverse",), "hookgate [-h]"),
        (("serve", "--port", "1"), "hookgate serve [-h]"),
        (("demo", "--fast"), "hookgate demo [-h]"),
        (("hooks", "list", "--fast"), "hookgate hooks list [-h]"),
    ],
)
def test_a_command_line_it_does_not_know_is_an_error_with_the_usage_of_its_command(
    arguments: tuple[str, ...], usage: str, here: Here
) -> None:
    ended = here(*arguments)
    assert ended.code == 2
    assert ended.err.startswith(f"usage: {usage}")


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (("serve", "--port", "8787"), "; did you mean --listen?"),
        (("serve", "--hoks", "settings.json"), "; did you mean --hooks?"),
        (
            ("serve", "--hook", "settings.json"),
            "unrecognized arguments: --hook settings.json; did you mean --hooks?",
        ),
        (("serve", "guard/settings.json"), "; name the file with --hooks"),
        (("doctor", "hookgate.toml"), "; name the file with --config"),
        (("keys", "hash", "settings.json"), "unrecognized arguments: settings.json"),
        (("serv",), "; did you mean serve?"),
    ],
)
def test_an_unknown_word_is_reported_with_a_suggestion(
    words: tuple[str, ...], remedy: str, here: Here
) -> None:
    ended = here(*words)
    assert (ended.code, ended.err.strip().endswith(remedy)) == (2, True), ended


_NO_ADDRESS = "must be HOST:PORT, such as 127.0.0.1:8787"


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        *(
            (address, _NO_ADDRESS)
            for address in ("8787", ":8787", "localhost", "localhost:", "localhost:x", "h:-1")
        ),
        ("localhost:65536", "65536 is not a port: ports are at most 65535; 0 selects a free one"),
        ("localhost:99999", "99999 is not a port: ports are at most 65535; 0 selects a free one"),
    ],
)
@pytest.mark.parametrize("command", ["serve", "mock-upstream"])
def test_an_invalid_listen_address_is_reported_in_one_line(
    command: str, address: str, expected: str, here: Here
) -> None:
    ended = here(command, "--listen", address, *(["--admin", "off"] if command == "serve" else []))
    assert ended.code == 1
    assert "--listen: " in ended.complaint
    assert ended.complaint.endswith(expected)


async def test_the_environment_is_checked_like_the_command_line() -> None:
    ended = await run("serve", env={"HOOKGATE_LISTEN": "8787", "HOOKGATE_ADMIN__ADDRESS": "off"})
    assert ended.code == 1
    assert ended.complaint.startswith("hookgate: HOOKGATE_LISTEN: listen.address: must be HOST:PORT")


@pytest.mark.parametrize(
    ("text", "place", "remedy"),
    [
        ("{", "settings.json:1:2: ", "not valid JSON"),
        ("[]", "settings.json: ", "must contain an object"),
        (
            '{"hooks": {"BeforeModle": []}}',
            "settings.json:1: hooks.BeforeModle: ",
            "did you mean BeforeModel?",
        ),
        ('{"hooks": {"BeforeModel": [', "settings.json:1:28: ", "end the file with ]}}"),
        (
            '{"hooks": {"BeforeModel": [{"hooks": [{"type": "command"}]}]}}',
            "hooks.BeforeModel[0].hooks[0].command: ",
            "is missing",
        ),
    ],
)
def test_a_wrong_settings_file_is_one_line_with_place_and_remedy(
    text: str, place: str, remedy: str, tmp_path: Path, here: Here
) -> None:
    file = tmp_path / "settings.json"
    file.write_text(text)
    ended = here("serve", *FREE, "--hooks", str(file))
    assert ended.code == 1
    assert ended.complaint.startswith(f"hookgate: {tmp_path}")
    assert place in ended.complaint
    assert remedy in ended.complaint


async def test_a_settings_file_that_is_not_there_is_named() -> None:
    ended = await run("serve", *FREE, "--hooks", "/no/such/settings.json")
    assert (ended.code, ended.complaint) == (
        1,
        "hookgate: /no/such/settings.json: cannot be read: No such file or directory; check the path",
    )


@pytest.mark.parametrize(
    "upstream", ["localhost:80", "http://u:p@host", "http://host?", "http://host:99999", ""]
)
def test_an_upstream_that_is_not_a_base_url_is_one_line(upstream: str, here: Here) -> None:
    ended = here("serve", *FREE, "--upstream", upstream)
    assert ended.code == 1
    assert ended.complaint.startswith("hookgate: ")


@pytest.mark.parametrize("command", ["serve", "mock-upstream"])
async def test_a_port_in_use_is_one_line_that_names_it(command: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = await run(command, "--listen", f"127.0.0.1:{port}")
    assert ended.code == 1
    assert str(port) in ended.complaint
    assert "address already in use" in ended.complaint.lower()


@pytest.mark.parametrize(
    ("flag", "other", "expected"),
    [
        (
            "--admin",
            "--listen",
            "the admin listener cannot listen on {}: .*, or choose .* --admin or admin.address",
        ),
        (
            "--listen",
            "--admin",
            "the gateway cannot listen on {}: .*, or choose .* --listen or listen.address",
        ),
    ],
)
async def test_a_port_in_use_is_reported_with_its_listener_and_setting(
    flag: str, other: str, expected: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = await run("serve", flag, address, other, "127.0.0.1:0")
    assert ended.code == 1
    assert re.search(expected.format(re.escape(address)), ended.err)


async def test_a_start_reports_the_problems_of_settings_and_of_all_hooks_at_once(tmp_path: Path) -> None:
    misspelled = {"type": "command", "comand": "true"}
    unknown = {"type": "builtin", "builtin": "models", "options": {"dney": []}}
    files = []
    for name, hook in (("a", misspelled), ("b", unknown)):
        (tmp_path / name).mkdir()
        files.append(str(write_settings(tmp_path / name, {"BeforeModel": [hook]})))
    for command in (("serve",), ("config", "check")):
        ended = await run(*command, "--listen", "127.0.0.1:99999", "--policy", *files)
        told = ("99999 is not a port", "did you mean command?", "did you mean deny?")
        assert [text for text in told if text not in ended.err] == []


def test_a_wrong_script_is_one_line_with_place_and_remedy(tmp_path: Path, here: Here) -> None:
    script = tmp_path / "script.json"
    script.write_text('{"rules": [{"answer": {"chunks": 1}}]}')
    ended = here("mock-upstream", "--script", str(script))
    assert ended.code == 1
    assert f"{script}: rules[0].answer.chunks: " in ended.complaint
    assert "The mock upstream" in ended.complaint


# ---- serving


async def test_it_serves_between_a_client_and_the_upstream() -> None:
    async with (
        serving("mock-upstream") as upstream,
        serving("serve", *FREE, "--upstream", upstream.url) as gateway,
    ):
        assert "no hooks: calls are forwarded unchanged" in gateway.log
        assert upstream.url in gateway.log
        answer = await post(gateway.url, UNARY, HI)
    assert answer.json["candidates"][0]["content"]["parts"] == [{"text": "You said: hi"}]


async def test_several_settings_files_are_all_in_force(tmp_path: Path) -> None:
    files = []
    for name, event in (("a", "BeforeModel"), ("b", "AfterModel")):
        (tmp_path / name).mkdir()
        files.append(str(write_settings(tmp_path / name, {event: [DENY]})))
    async with serving("serve", *FREE, "--hooks", *files) as gateway:
        assert "hooks: BeforeModel 1, AfterModel 1" in gateway.log
        assert (await post(gateway.url, SSE, HI)).error["message"] == "No."


async def test_the_list_tells_how_the_gateways_hooks_fared(tmp_path: Path) -> None:
    settings, state = (
        write_settings(tmp_path, {"AfterModel": [{"name": "guard", **DENY}]}),
        tmp_path / "state",
    )
    sources = ("--hooks", str(settings), "--state", str(state))
    async with (
        serving("mock-upstream") as upstream,
        serving("serve", *FREE, "--upstream", upstream.url, *sources) as gateway,
    ):
        for _ in range(3):
            assert (await post(gateway.url, UNARY, HI)).error["message"] == "No."
        await until((state / "hooks-status.json").exists, 10)  # it is noted every two seconds
        await until(lambda: '"runs": 3' in (state / "hooks-status.json").read_text(), 10)
    listed, shown = (
        await run("hooks", "list", "--json", *sources),
        await run("hooks", "show", "guard", *sources),
    )
    [row] = json.loads(listed.out)
    assert (row["last run"], row["last output"]) == ("ok", "deny")
    assert "3 runs, 0 failed, 3 denied" in shown.out


async def test_the_list_tells_nothing_of_hooks_of_the_same_name_in_another_file(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    settings, other = (
        str(write_settings(folder, {"AfterModel": [{"name": "guard", **DENY}]}))
        for folder in (tmp_path, tmp_path / "other")
    )
    state = ("--state", str(tmp_path / "state"))
    async with (
        serving("mock-upstream") as upstream,
        serving("serve", *FREE, "--upstream", upstream.url, "--hooks", settings, *state) as gateway,
    ):
        assert (await post(gateway.url, UNARY, HI)).error["message"] == "No."
        await until((tmp_path / "state" / "hooks-status.json").exists, 10)
    runs = [
        json.loads((await run("hooks", "list", "--json", "--hooks", file, *state)).out)[0]["last run"]
        for file in (settings, other)
    ]
    assert runs == ["ok", "never"]


async def test_the_list_warns_of_output_without_effect(tmp_path: Path) -> None:
    line = """cat >/dev/null; echo '{"decison": "deny"}'"""
    odd = {"type": "command", "command": line, "on_error": "allow"}
    settings, state = write_settings(tmp_path, {"BeforeModel": [odd]}), tmp_path / "state"
    sources = ("--hooks", str(settings), "--state", str(state))
    async with (
        serving("mock-upstream") as upstream,
        serving("serve", *FREE, "--upstream", upstream.url, *sources) as gateway,
    ):
        assert (await post(gateway.url, UNARY, HI)).status == 200
        await until((state / "hooks-status.json").exists, 10)
        await until(lambda: '"runs": 1' in (state / "hooks-status.json").read_text(), 10)
    [row] = json.loads((await run("hooks", "list", "--json", *sources)).out)
    assert row["last run"] == "ok, but it returned surprising output; see the gateway's log"


async def test_the_status_of_hooks_is_the_owner_s_and_quotes_no_call(tmp_path: Path) -> None:
    line = "cat >&2; exit 3"  # a guard whose error quotes the prompt
    state = tmp_path / "state"
    settings = write_settings(tmp_path, {"BeforeModel": [{"type": "command", "command": line}]})
    status = write_file(state, "{}", "hooks-status.json")  # that of an older version
    sources = ("--hooks", str(settings), "--state", str(state))
    prompt = {"contents": [{"role": "user", "parts": [{"text": "my secret plan"}]}]}
    async with (
        serving("mock-upstream") as upstream,
        serving("serve", *FREE, "--upstream", upstream.url, *sources) as gateway,
    ):
        await post(gateway.url, UNARY, prompt)
        await until(lambda: '"runs": 1' in status.read_text(), 10)
        while "secret plan" not in (line := await gateway.next_line()):
            assert line
    assert "secret plan" not in status.read_text()
    assert status.stat().st_mode & 0o777 == 0o600
    [row] = json.loads((await run("hooks", "list", "--json", *sources)).out)
    assert row["last run"] == "failed: see the gateway's log"


def test_a_receipt_s_id_is_needed_in_full(here: Here) -> None:
    ended = here("receipt", "abcdef12")
    assert (ended.code, "`hookgate audit show` also accepts the first" in ended.complaint) == (1, True)


async def test_the_environment_can_say_it_all(tmp_path: Path) -> None:
    file = write_settings(tmp_path, {"AfterModel": [DENY]})
    async with serving("mock-upstream") as upstream:
        env = {
            "HOOKGATE_LISTEN": "127.0.0.1:0",
            "HOOKGATE_UPSTREAM": upstream.url,
            "HOOKGATE_HOOKS": f"{file}:{file}",
        }
        async with serving("serve", env=env) as gateway:
            assert "hooks: AfterModel 1" in gateway.log
            assert (await post(gateway.url, UNARY, HI)).error["message"] == "No."
        async with serving("serve", "--upstream", "http://127.0.0.1:1", env=env) as other:
            assert (await post(other.url, UNARY, HI)).status == 502  # the command line outranks it


async def test_a_server_loads_no_library_that_it_does_not_use(tmp_path: Path) -> None:
    check = """
import sys
from pathlib import Path
from hookgate.proxy import app
from hookgate.proxy.store.database import open_audit

for _ in ("a new file", "one with tables"):
    open_audit(None, Path(sys.argv[1]), writes=True).close()
unused = "alembic google opentelemetry psycopg re2 rich sqlalchemy.dialects.postgresql sqlalchemy.orm"
print([name for name in unused.split() if name in sys.modules])
"""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", check, tmp_path, env=environment(), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert (process.returncode, out.decode()) == (0, "[]\n")


async def test_an_address_that_is_taken_is_reported_without_a_number() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = await run("mock-upstream", "--listen", address)
    reported = (
        f"hookgate: cannot listen on {address}: Address already in use; choose another address with --listen"
    )
    assert (ended.code, ended.complaint) == (1, reported)


@pytest.mark.parametrize("admin", ["foo", "https://h:1", "h"], ids=["word", "https", "no port"])
def test_an_invalid_admin_address_is_reported(admin: str, here: Here) -> None:
    ended = here("receipt", "0" * 32, "--admin", admin)
    reported = f"hookgate: --admin: {admin!r} must be HOST:PORT, such as 127.0.0.1:9787"
    assert (ended.code, ended.complaint) == (1, reported)


def test_a_gateway_that_does_not_answer_is_reported_without_a_number(here: Here) -> None:
    ended = here("receipt", "0" * 32, "--admin", "http://127.0.0.1:1/")
    assert (ended.code, "at 127.0.0.1:1: Connection refused; start it" in ended.complaint) == (1, True)


async def test_the_core_alone_names_what_the_gateway_needs(tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['yarl'] = None; from hookgate.proxy.__main__ import main; sys.exit(main())"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, "serve", stdout=PIPE, stderr=PIPE, env=environment()
    )
    out, complaint = await process.communicate()
    assert (process.returncode, out) == (1, b"")
    assert complaint.endswith(b"install hookgate with its extra proxy\n")
    assert complaint.count(b"\n") == 1
