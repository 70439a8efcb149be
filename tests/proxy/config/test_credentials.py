"""`[credentials.NAME]`: valid and invalid settings; no output contains a key."""

import asyncio
from pathlib import Path

import pytest
from support.programs.program import run
from support.upstream.google_cloud import google_cloud

from hookgate.proxy.cli.main import run_command
from hookgate.proxy.config import ConfigError, read_config

KEY = "AIza-canary-of-the-gateway"
ONE_OF = "needs exactly one of key, key_file, service_account_file and default"
GEMINI = "api = 'gemini'\n"
VERTEX = "api = 'vertex'\n"


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    return tmp_path / "hookgate.toml"


def test_credentials_keep_their_order_and_paths_are_relative_to_the_file(toml: Path) -> None:
    toml.write_text(
        f"[credentials.z]\n{GEMINI}key_file = 'z'\n"
        f"[credentials.a]\n{VERTEX}service_account_file = 'a.json'\nproject = 'my-project'\n"
        "locations = ['europe-west4', 'europe-west1']\nserves = ['gemini']\nteams = ['search']\n"
        f"[credentials.m]\n{VERTEX}default = true\nproject = '123456'\n"
    )
    effective = read_config({"config": str(toml)}, {})
    held = effective.config.credentials
    assert list(held) == ["z", "a", "m"]
    assert held["z"].key_file == toml.parent / "z"
    assert held["a"].service_account_file == toml.parent / "a.json"
    assert held["a"].locations == ("europe-west4", "europe-west1")
    assert held["m"].locations == ("global",)
    assert effective.places["credentials.a"] == f"{toml}:4"


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (f"key = '{KEY}'", "F:1: credentials.a.api: is missing"),
        (GEMINI, f"F:1: credentials.a: {ONE_OF}"),
        (f"{GEMINI}key = '{KEY}'\nkey_file = 'x'", f"F:1: credentials.a: {ONE_OF}"),
        (f"{VERTEX}default = false\nproject = 'mine'", f"F:1: credentials.a: {ONE_OF}"),
        (f"{GEMINI}key = 'canary x'", "F:1: credentials.a.key: must be an API key: 8 to 512 letters"),
        (f"{GEMINI}default = true", 'F:1: credentials.a: api = "gemini" needs key or key_file'),
        (
            f"{GEMINI}key = '{KEY}'\nserves = ['vertex']",
            'F:1: credentials.a: api = "gemini" needs key or key_file, and has no project and does not serve',
        ),
        (
            f"{VERTEX}service_account_file = 'x'",
            "F:1: credentials.a: needs project, the Google Cloud project",
        ),
        (f"{VERTEX}key = '{KEY}'\nlocations = ['us-east1']", "F:1: credentials.a: locations need project"),
        (
            f"{VERTEX}default = true\nproject = 'My Project'",
            "F:1: credentials.a.project: must be the ID or the number of a Google Cloud project",
        ),
        (
            f"{VERTEX}default = true\nproject = 'mine'\nlocations = ['evil.example/']",
            "F:1: credentials.a.locations[0]: must be a location of Vertex AI, such as global",
        ),
        (
            f"{VERTEX}default = true\nproject = 'mine'\nlocations = ['eu', 'eu']",
            "F:1: credentials.a: locations must name at least one location, and each only once",
        ),
        (
            f"{VERTEX}default = true\nproject = 'mine'\nregion = 'eu'",
            "F:5: credentials.a.region: is not known; did you mean credentials.a.locations?",
        ),
        (
            f"{GEMINI}file = 'x'",
            "F:3: credentials.a.file: is not known; did you mean credentials.a.key_file or "
            "credentials.a.service_account_file?",
        ),
    ],
)
def test_what_can_be_wrong(table: str, expected: str, toml: Path) -> None:
    toml.write_text(f"[credentials.a]\n{table}")
    with pytest.raises(ConfigError) as error:
        read_config({"config": str(toml)}, {})
    [problem] = error.value.problems
    assert problem.replace(str(toml), "F").startswith(expected)
    assert "canary" not in problem


def test_check_names_every_credential_that_cannot_be_used_and_show_masks_keys(
    toml: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOOKGATE_CONFIG", raising=False)
    (toml.parent / "text").write_text("canary")
    toml.write_text(
        "clients.issued_keys = true\n"
        f"[credentials.good]\n{GEMINI}key = '{KEY}'\n"
        f"[credentials.gone]\n{GEMINI}key_file = 'gone'\n"
        f"[credentials.text]\n{VERTEX}service_account_file = 'text'\nproject = 'mine'\n"
        "[upstream]\nca_bundle = 'text'\n"
    )
    arguments = ["--config", str(toml), "--state", str(toml.parent)]
    assert run_command(["config", "check", *arguments]) == 1
    folder, told = toml.parent, capsys.readouterr().err
    assert told.removeprefix("hookgate: ").splitlines() == [
        f"{toml}:5: credentials.gone.key_file: {folder}/gone: does not exist; "
        "write the secret into it, or check the path",
        f"{toml}:8: credentials.text.service_account_file: {folder}/text: is not JSON; download the service "
        "account's key again",
        f"{toml}:13: upstream.ca_bundle: {folder}/text contains no PEM certificates",
    ]
    assert run_command(["config", "show", *arguments]) == 0
    shown = capsys.readouterr().out
    assert "credentials.good.key " in shown
    assert "canary" not in shown


async def test_doctor_asks_for_a_token(toml: Path) -> None:
    async with google_cloud() as cloud:
        file = await asyncio.to_thread(cloud.key_file, toml.parent)
        where = "".join(f"{api} = '{cloud.url}'\n" for api in ("gemini", "vertex", "code_assist"))
        text = (
            f"listen.address = '127.0.0.1:0'\nadmin.address = 'off'\nclients.issued_keys = true\n"
            f"[upstream]\n{where}[credentials.cloud]\n"
            f"{VERTEX}service_account_file = '{file}'\nproject = 'mine'\n"
        )
        await asyncio.to_thread(toml.write_text, text)
        command = ("doctor", "--config", str(toml), "--state", str(toml.parent / "state"))
        for refuses, found in ((False, "ok"), (True, "FAIL")):
            cloud.refuses = refuses
            ended = await run(*command)
            [line] = [each for each in ended.out.splitlines() if "credentials.cloud" in each]
            assert line.split()[0] == found
            assert "canary" not in ended.out + ended.err
        assert "the token service refused: invalid_grant" in ended.err
