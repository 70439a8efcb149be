"""The first steps of a new user, with real clients: the README's hook, and connecting Gemini CLI."""

import json
from pathlib import Path

import pytest
from support.clients.interface import CLIENTS, Cli, Client
from support.clients.node import GeminiCli, new_user
from support.clients.python_sdk import sdk_warnings
from support.gateway.loopback import running_gateway
from support.pages import block_of, write_guard
from support.places import PROJECT
from support.programs.commands import run_command

pytestmark = sdk_warnings

STOPPED = "This conversation contains a private key. Start a new one without it."
KEY = "Whose key is this? -----BEGIN PRIVATE KEY-----"


# Gemini CLI is further below; test_matrix.py has a stop with each of its logins.
@pytest.mark.parametrize(
    "client",
    [pytest.param(each, id=name) for name, each in CLIENTS.items() if not isinstance(each, Cli)],
)
async def test_every_client_shows_the_readme_s_reason_as_one_sentence(
    client: Client, tmp_path: Path, arrived: list[str]
) -> None:
    async with running_gateway(write_guard(tmp_path / "guard")) as gateway:
        shown = await client.ask(gateway.url, KEY, tmp_path)
    assert (shown.text, shown.failed) == (STOPPED, "")
    assert len([target for target in arrived if "enerateContent" in target]) == 1
    assert gateway.generated == []


# The choice of a model is asked for in JSON. It gets an error: prose it would ask for again and again.
@pytest.mark.parametrize(
    ("model", "methods", "reports"),
    [
        ("auto", ["generateContent", "streamGenerateContent?alt=sse"], 2),
        ("gemini-2.5-flash", ["streamGenerateContent?alt=sse"], 0),
    ],
)
async def test_gemini_cli_shows_it_too_and_only_the_choice_of_a_model_leaves_a_report_on_stderr(
    model: str, methods: list[str], reports: int, tmp_path: Path, arrived: list[str]
) -> None:
    """As its page says: once where the call failed, and once where the choice of the model did."""
    gemini = GeminiCli(tmp_path)
    async with running_gateway(write_guard(tmp_path / "guard")) as gateway:
        ran = await gemini.ask(gateway.url, KEY, model=model)
    assert (ran.exit_code, ran.stdout) == (0, f"{STOPPED}\n")
    assert ran.stderr.count(STOPPED) == reports
    assert [target.rpartition(":")[2] for target in arrived] == methods
    assert gateway.generated == []


async def test_the_lines_that_connect_gemini_cli_work_in_an_empty_home(tmp_path: Path) -> None:
    lines = block_of("docs/agents/gemini-cli.md", "gemini --skip-trust").text
    async with running_gateway() as gateway:
        text = lines.replace("http://127.0.0.1:8787", gateway.url).replace("=YOUR_KEY", "=any")
        ran = await run_command(["bash", "-ec", text], tmp_path, new_user(tmp_path))
    assert (ran.exit_code, ran.stdout.strip()) == (0, "You said: Say good morning."), ran.stderr


async def test_the_readme_s_settings_for_gemini_cli_are_all_that_it_needs(tmp_path: Path) -> None:
    """The row of the README's table: two variables, and a whole settings file."""
    [row] = [
        line for line in (PROJECT / "README.md").read_text().splitlines() if line.startswith("| Gemini CLI")
    ]
    base_url, key, file, settings = row.split("`")[1::2]
    assert (file, key) == ("~/.gemini/settings.json", "GEMINI_API_KEY")
    (tmp_path / ".gemini").mkdir()
    (tmp_path / ".gemini" / "settings.json").write_text(settings)
    assert json.loads(settings)
    name, _, value = base_url.partition("=")
    async with running_gateway() as gateway:
        assert value == "http://127.0.0.1:8787"
        environment = {**new_user(tmp_path), name: gateway.url, key: "any"}
        command = ["gemini", "--skip-trust", "--model", "gemini-2.5-flash", "--prompt", "say hi"]
        ran = await run_command(command, tmp_path, environment)
    assert (ran.exit_code, ran.stdout.strip()) == (0, "You said: say hi"), ran.stderr


async def test_gemini_cli_shows_the_denial_of_the_readme_as_one_sentence(tmp_path: Path) -> None:
    """The README's guard and the lines of Gemini CLI's page, in an empty home."""
    lines = block_of("docs/agents/gemini-cli.md", "gemini --skip-trust").text
    lines = lines.replace("Say good morning.", "Whose key is this? -----BEGIN PRIVATE KEY-----")
    lines = lines.replace("gemini --skip-trust", "gemini --skip-trust --model gemini-3.8-flash")
    async with running_gateway(write_guard(tmp_path / "guard")) as gateway:
        text = lines.replace("http://127.0.0.1:8787", gateway.url).replace("=YOUR_KEY", "=any")
        ran = await run_command(["bash", "-ec", text], tmp_path, new_user(tmp_path))
    assert (ran.exit_code, ran.stdout) == (0, f"{STOPPED}\n")
    assert STOPPED not in ran.stderr
    assert gateway.generated == []
