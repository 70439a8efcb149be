"""A setup with more than ten kinds of problems: `config check`, `serve` and `doctor` report all at once."""

import os
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hookgate.proxy.cli.main import run_command

FILES = {
    "hookgate.toml": """
        [lisen]
        [listen]
        certificate = "no.pem"
        [hooks]
        files = ["settings.json"]
        policy = ["policy.json"]
        state = "state"
        [audit]
        content = "all"
        [upstream]
        gemini = "http://127.0.0.1:1/v1beta"
        ca_bundle = "no.pem"
        [prices]
        file = "gone.toml"
    """,
    "settings.json": """{"hooks": {
        "BeforeModle": [],
        "BeforeModel": [{"hooks": [{"type": "command", "command": "./gone.sh"}]}],
        "BeforeTool": [
            {"matcher": "write_(", "hooks": [{"type": "command", "command": "true"}]},
            {"matcher": "run_*", "hooks": [{"type": "command", "command": "./closed.sh", "timout": 5}]}
        ]}}
    """,
    "policy.json": """{"hooks": {"BeforeModel": [{"hooks": [
        {"type": "builtin", "builtin": "models", "options": {"dney": ["*-pro"]}},
        {"type": "builtin", "builtin": "limits", "options": {"rules": [
            {"cost": 1, "per": "key", "window": "day"}]}},
        {"type": "runtime", "action": "./gone.py:check"},
        {"type": "http", "url": "ftp://guard.example"}
        ]}]}}
    """,
    "closed.sh": "#!/bin/sh\n",
}

ERRORS = [
    "hookgate.toml:2: lisen: is not known; did you mean listen?",
    "hookgate.toml:10: audit.content: must be 'off', 'redacted' or 'full'",
    "hookgate.toml:12: upstream.gemini: must not end with /v1beta: the path of each call begins with the "
    "version; write http://127.0.0.1:1",
    "hookgate.toml:4: listen.certificate: no.pem: cannot be read: No such file or directory; check the path",
    "hookgate.toml:13: upstream.ca_bundle: no.pem: cannot be read: No such file or directory; check the path",
    "hookgate.toml:15: prices.file: gone.toml: cannot be read: No such file or directory; check the path",
    "policy.json:6: hooks.BeforeModel[0].hooks[3].url: must be a URL such as https://guard.example/check, or "
    "unix:/path/to/socket:/check",
    "settings.json:2: hooks.BeforeModle: there is no such event; did you mean BeforeModel?",
    "settings.json:5: hooks.BeforeTool[0].matcher: 'write_(' is not a regular expression: missing ), "
    r"unterminated subpattern at position 6; to match it literally, use 'write_\\('",
    "policy.json:2: the BeforeModel hook 'models': options: dney: is not known here; did you mean deny?",
    "policy.json:5: the runtime hook './gone.py:check': ./gone.py does not exist in FOLDER; check the path",
]
"""What prevents a start."""

BROKEN = [
    "settings.json:3: hooks.BeforeModel: the hook './gone.sh': ./gone.sh does not exist in FOLDER; check the "
    "path",
    "settings.json:6: hooks.BeforeTool: the hook './closed.sh': ./closed.sh is not executable; run: chmod +x "
    "FOLDER/closed.sh",
    "settings.json:6: hooks.BeforeTool: the matcher 'run_*' is written like a shell's wildcard, but is a "
    "regular expression; did you mean 'run_.*'?",
]
"""What prevents a hook from working, which is a warning outside of policy files."""

UNREAD = (
    "settings.json:6: hooks.BeforeTool: the hook './closed.sh': 'timout' is not known here and has no "
    "effect; did you mean timeout?"
)


@pytest.fixture
def taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of another program's listener; the current folder has the files above."""
    for name in [name for name in os.environ if name.startswith("HOOKGATE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text)
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def lines(text: str) -> list[str]:
    return text.replace(str(Path.cwd()), "FOLDER").removeprefix("hookgate: ").splitlines()


@pytest.mark.parametrize("command", ["config check", "serve"])
def test_a_check_and_a_start_report_everything(
    command: str, taken: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    code = run_command([*command.split(), "--config", "hookgate.toml", "--listen", taken, "--admin", taken])
    ports = [
        f"{name} cannot listen on {taken}: Address already in use; "
        f"stop the program that uses it, such as another gateway, or choose another address with {remedy}"
        for name, remedy in (
            ("the gateway", "--listen or listen.address"),
            ("the admin listener", "--admin or admin.address"),
        )
    ]
    both = f"--admin: listen.address and admin.address are both {taken}; choose another with --admin"
    expected = [*ERRORS[:3], both, *ERRORS[3:]]
    # A running gateway may be checked: its addresses are taken.
    assert lines(capsys.readouterr().err) == [*expected, *(ports if command == "serve" else [])]
    warnings = [lines(message)[0] for message in caplog.messages]
    assert set(warnings) == {*BROKEN, UNREAD}
    assert code == 1


def test_the_doctor_reports_everything(taken: str, capsys: pytest.CaptureFixture[str]) -> None:
    address = ("--listen", taken, "--admin", "127.0.0.1:0")
    code = run_command(["doctor", "--offline", "--config", "hookgate.toml", *address])
    shown = lines(capsys.readouterr().out)
    failures = [line.removeprefix("FAIL  ") for line in shown if line.startswith("FAIL")]
    [port] = [line for line in failures if taken in line]
    assert [line for line in failures if line != port] == [*ERRORS, *BROKEN]
    assert f"note  {UNREAD}" in shown
    assert shown[-1].endswith(f"{len(failures)} problems found.")
    assert code == 1


def test_a_second_gateway_reports_both_addresses(
    tmp_path: Path, taken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("empty.toml").touch()
    state = str(tmp_path / "state")
    words = ("--config", "empty.toml", "--state", state, "--listen", taken, "--admin", taken)
    assert run_command(["serve", *words]) == 1
    told = [line for line in lines(capsys.readouterr().err) if "Address already in use" in line]
    assert [line.partition(" cannot")[0] for line in told] == ["the gateway", "the admin listener"]
