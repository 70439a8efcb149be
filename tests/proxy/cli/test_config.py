"""`hookgate config check | show | schema`, the page of settings, and the example."""

import json
import re
import tomllib
from pathlib import Path

import jsonschema
import pytest
from generators.settings_reference import settings_reference
from support.hooks.settings import command, one_group, write_file
from support.places import PROJECT
from support.programs.program import run, serving

from hookgate.hooks.field_texts import field_texts
from hookgate.proxy.config import Config
from hookgate.proxy.config.catalogue import SETTINGS, Setting, sections
from hookgate.proxy.config.values import Section

PAGE = PROJECT / "docs" / "configuration.md"
EXAMPLE = PROJECT / "examples" / "hookgate.toml"


async def test_no_configuration_is_ok() -> None:
    ended = await run("config", "check")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("ok: /dev/null; no hooks: calls are forwarded unchanged; revision ")


async def test_check_says_what_was_read() -> None:
    env = {"HOOKGATE_CONFIG": str(EXAMPLE), "HOOKGATE_LOGS__LEVEL": "debug"}
    ended = await run("config", "check", "--listen", "127.0.0.1:1", env=env)
    assert ended.out.startswith(f"ok: {EXAMPLE}, --listen, HOOKGATE_LOGS__LEVEL; hooks: BeforeModel 2, ")


async def test_check_reports_what_a_start_would_find_in_the_named_files(tmp_path: Path) -> None:
    toml, empty, hooks = tmp_path / "hookgate.toml", tmp_path / "empty.pem", tmp_path / "hooks.json"
    empty.write_text("")
    hooks.write_text('{"hooks": {"BeforeModle": []}}')
    toml.write_text(
        "listen.certificate = 'empty.pem'\nupstream.ca_bundle = 'empty.pem'\nhooks.files = ['hooks.json']\n"
    )
    ended = await run("config", "check", "--config", str(toml))
    assert ended.code == 1
    certificate, bundle, hook = ended.err.removeprefix("hookgate: ").splitlines()
    assert certificate.startswith(f"{toml}:1: listen.certificate")
    assert bundle.startswith(f"{toml}:2: upstream.ca_bundle")
    assert hook.startswith(f"{hooks}:1: hooks.BeforeModle: ")
    ended = await run("config", "check", "--project", "/no/such")
    assert ended.complaint == (
        "hookgate: --project: hooks.project: /no/such: there is no such folder; check the path"
    )


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("./gone.sh", "./gone.sh does not exist in "),
        ("python3 gone.py", "gone.py, which python3 would run, does not exist in "),
        ("./plain.sh", "./plain.sh is not executable; run: chmod +x "),
    ],
)
async def test_check_fails_for_a_script_that_cannot_run(line: str, problem: str, tmp_path: Path) -> None:
    """A gateway would start with it: the file may be there when the hook runs."""
    write_file(tmp_path, "#!/bin/sh\n", "plain.sh")
    hooks = write_file(tmp_path, one_group(command(line, name="guard")))
    ended = await run("config", "check", "--hooks", str(hooks))
    assert ended.code == 1
    assert f"hookgate: {hooks}:1: hooks.BeforeModel: the hook 'guard': {problem}" in ended.err


async def test_show_gives_every_setting_its_value_and_its_source(tmp_path: Path) -> None:
    toml, secret = tmp_path / "hookgate.toml", tmp_path / "secret"
    toml.write_text("[hooks]\npolicy = ['p.json']\n")
    secret.write_text("http://user:hunter2@p:1\n")
    given = ("--config", str(toml), "--listen", "h:1")
    env = {"HOOKGATE_UPSTREAM__PROXY_FILE": str(secret), "XDG_STATE_HOME": "/s"}
    ended = await run("config", "show", "--json", *given, env=env)
    reported = json.loads(ended.out)
    assert list(reported) == list(SETTINGS)
    assert reported["listen.address"] == {"value": "h:1", "source": "--listen"}
    assert reported["hooks.policy"] == {"value": [str(tmp_path / "p.json")], "source": f"{toml}:2"}
    assert reported["upstream.proxy"] == {
        "value": "http://***@p:1",
        "source": "HOOKGATE_UPSTREAM__PROXY_FILE",
    }
    assert reported["hooks.state"] == {"value": "/s/hookgate", "source": "default"}
    table = (await run("config", "show", *given, env=env)).out
    assert len(table.splitlines()) == len(SETTINGS)
    assert re.search(r"^listen\.address +h:1 +--listen$", table, re.MULTILINE)
    assert "hunter2" not in table + ended.out


async def test_show_and_check_tell_all_that_is_wrong() -> None:
    for name in ("show", "check"):
        ended = await run("config", name, "--listen", "x", env={"HOOKGATE_LIMITS__BODY": "x"})
        assert (ended.code, ended.out) == (1, "")
        assert ended.err == (
            "hookgate: HOOKGATE_LIMITS__BODY: limits.body: must be a whole number\n"
            "--listen: listen.address: must be HOST:PORT, such as 127.0.0.1:8787\n"
        )


async def test_the_schema_takes_what_the_gateway_takes() -> None:
    schema = json.loads((await run("config", "schema")).out)
    validator = jsonschema.Draft202012Validator(schema)
    validator.check_schema(schema)
    good = [tomllib.loads(EXAMPLE.read_text()), {}, {"admin": {"address": "off"}}]
    bad = [{"limit": {}}, {"limits": {"bdy": 1}}, {"limits": {"body": "1"}}, {"listen": {"address": "x"}}]
    assert all(validator.is_valid(document) for document in good)
    assert not any(validator.is_valid(document) for document in bad)


async def test_hooks_commands_read_the_same_configuration() -> None:
    ended = await run("hooks", "list", "--config", str(EXAMPLE))
    assert (ended.code, "policy" in ended.out) == (0, True)
    ended = await run("hooks", "list", env={"HOOKGATE_LIMITS__BODY": "x"})
    assert (ended.code, "limits.body" in ended.complaint) == (1, True)


async def test_a_gateway_is_what_its_file_says(tmp_path: Path) -> None:
    toml = tmp_path / "hookgate.toml"
    toml.write_text(
        "listen.address = '127.0.0.1:0'\nadmin.address = 'off'\nupstream.gemini = 'http://a.b/c/'\n"
    )
    async with serving("serve", "--config", str(toml)) as gateway:
        assert "upstream http://a.b/c" in gateway.log


# ---- the page and the example


def test_the_page_is_what_the_model_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == settings_reference(), (
        "docs/configuration.md is out of date; renew it with: "
        ".venv/bin/python docs/generators/settings_reference.py > docs/configuration.md"
    )


@pytest.mark.parametrize(("name", "setting"), SETTINGS.items())
def test_every_setting_is_documented(name: str, setting: Setting) -> None:
    text = field_texts(sections()[setting.section])[setting.key]
    assert text.endswith("."), name


def test_every_section_is_documented() -> None:
    assert all(vars(kind)["__doc__"] and issubclass(kind, Section) for kind in sections().values())


def test_the_example_s_settings_are_defaults_or_have_a_comment_of_their_own() -> None:
    lines, defaults, section = EXAMPLE.read_text().splitlines(), Config().model_dump(mode="json"), ""
    for above, line in zip(["", *lines], lines, strict=False):
        if line.startswith("["):
            section = line.strip("[]")
        elif "=" in line and not line.startswith("#"):
            [(key, value)] = tomllib.loads(line).items()
            assert value == defaults[section][key] or above.startswith("#"), line


def test_what_the_example_leaves_commented_out_is_valid_too(tmp_path: Path) -> None:
    text = re.sub(r"(?m)^# (?=\w+ = )", "", EXAMPLE.read_text())
    given = {(section, key) for section, table in tomllib.loads(text).items() for key in table}
    assert ("upstream", "proxy") in given
    Config.model_validate(tomllib.loads(text))
