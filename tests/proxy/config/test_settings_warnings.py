"""Settings that others leave without effect are reported to the operator."""

from pathlib import Path

import pytest
from support.programs.program import run, serving

from hookgate.proxy.config.reading import read_config, settings_warnings

KEY = f"[keys.alice]\nsha256 = '{'a' * 64}'\n"
NO_AUDIT = "has no effect, because audit.enabled is false; set that to true, or remove this"
NO_KEYS = (
    "every call is refused, because the gateway knows no keys; name keys in [keys.NAME], or set "
    "clients.issued_keys to true"
)
NO_FILES = 'has no effect without routes.files = "judge"; set that, or remove this'
NO_TOKENS = "has no effect without tokens.issuer; set that, or remove this"
NO_SIGN_IN = "has no effect without sign_in.issuer; set that, or remove this"


def warnings_about(text: str, folder: Path) -> list[str]:
    """The warnings about a configuration, each without the path of its file."""
    file = folder / "hookgate.toml"
    file.write_text(text)
    found = settings_warnings(read_config({"config": file}, {}))
    assert all(warning.startswith(f"{file}:") for warning in found)
    return [warning.removeprefix(f"{file}:") for warning in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[audit]\nenabled = false\ncontent = 'full'\njsonl = 'a.jsonl'\n",
            [f"3: audit.content: {NO_AUDIT}", f"4: audit.jsonl: {NO_AUDIT}"],
        ),
        ("[clients]\nunknown_keys = 'refuse'\n", [f"2: clients.unknown_keys: {NO_KEYS}"]),
        ("[routes]\nfile_types = ['image/png']\n", [f"2: routes.file_types: {NO_FILES}"]),
        ("[routes]\nfiles = 'forward'\nfile_bytes = 5\n", [f"3: routes.file_bytes: {NO_FILES}"]),
        ("[tokens]\naudience = ['a']\n", [f"2: tokens.audience: {NO_TOKENS}"]),
        (
            "[sign_in]\nadmins = ['a']\nclient_id = 'x'\n",
            [f"3: sign_in.client_id: {NO_SIGN_IN}", f"2: sign_in.admins: {NO_SIGN_IN}"],
        ),
    ],
)
def test_a_setting_without_effect_is_reported(text: str, expected: list[str], tmp_path: Path) -> None:
    assert warnings_about(text, tmp_path) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[audit]\nenabled = false\ncontent = 'off'\n",
        "[audit]\ncontent = 'full'\n",
        f"[clients]\nunknown_keys = 'refuse'\n{KEY}",
        "[clients]\nunknown_keys = 'refuse'\nissued_keys = true\n",
        "[routes]\nfiles = 'judge'\nfile_types = ['image/png']\n",
        "[tokens]\nissuer = 'https://a.b'\naudience = ['a']\n",
    ],
)
def test_a_setting_with_effect_or_its_default_is_not_reported(text: str, tmp_path: Path) -> None:
    assert warnings_about(text, tmp_path) == []


async def test_a_start_a_check_and_the_doctor_report_it(tmp_path: Path) -> None:
    toml = tmp_path / "hookgate.toml"
    toml.write_text("[clients]\nunknown_keys = 'refuse'\n")
    expected = f"{toml}:2: clients.unknown_keys: {NO_KEYS}"
    words = ("--config", str(toml), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
    state = {"HOOKGATE_STATE": str(tmp_path / "state")}
    checked = await run("config", "check", *words)
    assert (checked.code, expected in checked.out.splitlines()) == (0, True), checked
    assert f"note  {expected}" in (await run("doctor", "--offline", *words, env=state)).out.splitlines()
    for more in ((), ("--workers", "2")):
        async with serving("serve", *words, *more, env=state) as gateway:
            while expected not in gateway.log:
                assert await gateway.next_line(), gateway.log
