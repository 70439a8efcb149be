"""Files of the wrong kind: one sentence names the file, its kind, and the option that was meant."""

from collections.abc import Callable
from pathlib import Path

import pytest
from support.places import PROJECT

from hookgate.proxy.cli.main import run_command

JSON = '{"hooks": {}}'
TOML = '[listen]\naddress = "127.0.0.1:0"\n'
PRICES = (PROJECT / "examples/prices.toml").read_text()
IS_TOML = (
    "guard.toml: is TOML, but hook settings are JSON; if it is the gateway's configuration, pass it with "
    "--config"
)
TABLE = "a price table has the key currency, and a table [models.NAME] for each model"

YAML = "# ours\nhooks:\n  BeforeModel: []\n"
IS_YAML = (
    'is YAML, but hook settings are JSON; write it as JSON, such as {"hooks": {…}}, or, if it is the '
    "gateway's configuration, as TOML"
)
YAML_CONFIG = (
    "is YAML, not TOML; write the configuration as TOML, such as [listen] and, below it, address = "
    '"127.0.0.1:8787"; write hook settings as JSON, and pass them with --hooks or --policy'
)

Check = Callable[..., str]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Check:
    """Runs `hookgate config check` in an empty folder with an empty home, and returns what it reports."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("HOOKGATE_CONFIG", "HOOKGATE_POLICY", "HOOKGATE_HOOKS", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: str) -> str:
        assert run_command(["config", "check", *words]) == 1
        captured = capsys.readouterr()
        assert captured.out == ""
        return captured.err.removeprefix("hookgate: ").removesuffix("\n")

    return run


def write(name: str, content: str | bytes) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)


@pytest.mark.parametrize(
    ("name", "content", "flag", "expected"),
    [
        (
            "settings.json",
            JSON,
            "--config",
            "settings.json: is JSON, not TOML; pass hook settings with --hooks or --policy",
        ),
        ("prices.toml", PRICES, "--config", "prices.toml: is a price table; name it in prices.file of the "
         "configuration"),
        ("hookgate.toml", TOML.encode("utf-16"), "--config", "hookgate.toml: is UTF-16; save it as UTF-8"),
        ("guard.toml", TOML, "--hooks", IS_TOML),
        ("guard.toml", TOML, "--policy", IS_TOML),
        ("guard.json", JSON.encode("utf-16"), "--hooks", "guard.json: is UTF-16; save it as UTF-8"),
        ("guard.json", JSON.encode("utf-16-le"), "--hooks", "guard.json: is UTF-16; save it as UTF-8"),
        ("guard.json", b'{"a": "\xff"}', "--hooks", "guard.json: is not UTF-8; save it as UTF-8"),
        ("guard.json", " \n", "--hooks", "guard.json: is empty; hook settings are JSON, such as "
         '{"hooks": {…}}'),
        (
            "guard.json",
            '{"hooks": {}, // none\n}',
            "--hooks",
            "guard.json:1:13: is not valid JSON: there is a comma before the closing }; remove the comma",
        ),
        (
            "guard.json",
            '{"hooks":\n {"BeforeModel": [1,]}}',
            "--hooks",
            "guard.json:2:20: is not valid JSON: there is a comma before the closing ]; remove the comma",
        ),
        (
            "guard.json",
            '{"a": [,1]}',
            "--policy",
            "guard.json:1:8: is not valid JSON: there is a comma after the opening [; remove the comma",
        ),
        ("settings.yaml", YAML, "--hooks", f"settings.yaml: {IS_YAML}"),
        ("settings.yml", "[]: [\n", "--policy", f"settings.yml: {IS_YAML}"),
        ("guard.json", "---\n{}\n", "--policy", f"guard.json: {IS_YAML}"),
        ("guard.json", '"hooks":\n  "BeforeModel": []\n', "--hooks", f"guard.json: {IS_YAML}"),
        ("hookgate.yaml", "listen:\n  address: 127.0.0.1:0\n", "--config", f"hookgate.yaml: {YAML_CONFIG}"),
        ("hookgate", YAML, "--config", f"hookgate: {YAML_CONFIG}"),
        ("hookgate.toml", "[listen]\naddress: 1\n", "--config", "hookgate.toml:2:8: is not valid TOML: "
         "Expected '=' after a key in a key/value pair"),
        ("settings.json", JSON, "--project", "--project: hooks.project: settings.json: is a file; name the "
         "project's folder, or use --hooks"),
    ],
)  # fmt: skip
def test_a_file_of_another_kind_is_named_with_the_remedy(
    name: str, content: str | bytes, flag: str, expected: str, check: Check
) -> None:
    write(name, content)
    assert check(flag, name) == expected


def test_a_byte_order_mark_and_comments_are_no_mistake(
    check: Check, capsys: pytest.CaptureFixture[str]
) -> None:
    write("hookgate.toml", TOML.encode("utf-8-sig"))
    write("guard.json", b"\xef\xbb\xbf// mine\n" + JSON.encode())
    assert run_command(["config", "check", "--config", "hookgate.toml", "--hooks", "guard.json"]) == 0


@pytest.mark.parametrize(
    ("files", "flag", "expected"),
    [
        ([], "--hooks", "folder: is a folder; check the path"),
        (["b.json", "a.json"], "--policy", "folder: is a folder; name a file in it, such as folder/a.json"),
        (["a.json", "settings.json"], "--hooks", "folder: is a folder; name a file in it, such as "
         "folder/settings.json"),
        ([".gemini/settings.json"], "--hooks", "folder: is a folder; to read its Gemini CLI settings, use "
         "--project folder"),
        ([], "--config", "folder: is a folder; name a file in it, such as folder/hookgate.toml"),
    ],
)  # fmt: skip
def test_a_folder_is_no_file(files: list[str], flag: str, expected: str, check: Check) -> None:
    Path("folder").mkdir()
    for name in files:
        write(f"folder/{name}", JSON)
    assert check(flag, "folder") == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            TOML,
            "hookgate.toml:2: prices.file: given: is the gateway's configuration; pass it with --config; "
            f"{TABLE}",
        ),
        (JSON, f"given: is JSON, not TOML; {TABLE}"),
        ("currency: USD\nmodels: {}\n", f"given: is YAML, not TOML; {TABLE}"),
        ("", f"hookgate.toml:2: prices.file: given: is empty; {TABLE}"),
        (PRICES.encode("utf-16"), "hookgate.toml:2: prices.file: given: is UTF-16; save it as UTF-8"),
    ],
)
def test_a_price_table_of_another_kind_is_named_with_the_remedy(
    content: str | bytes, expected: str, check: Check, tmp_path: Path
) -> None:
    write("given", content)
    write("hookgate.toml", "[prices]\nfile = 'given'\n")
    assert check("--config", "hookgate.toml") == expected
