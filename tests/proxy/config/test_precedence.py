"""The precedence of settings: flags, environment, file, defaults."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from pydantic import SecretStr

from hookgate.proxy.config import Config, read_config
from hookgate.proxy.config.catalogue import SETTINGS, Setting, config_schema

_SAMPLES = {
    "HOST:PORT": ["a:1", "b:2", "[::1]:3", "[fe80::1%eth0]:4", "127.0.0.1:0"],
    "uri": ["http://a", "http://b:80", "http://c", "http://d"],
    "https": ["https://a", "https://b:80/c", "http://127.0.0.1:1/d", "http://localhost"],
    "PostgreSQL": ["postgresql://a/b", "postgresql://u:p@a:1/b", "postgresql+psycopg://u@/b?x=1"],
    "origin": ["https://a.example", "http://localhost:3000", "https://b.example:8443", "http://[::1]:1"],
    "header": ["X-Tenant", "x-team", "X-Cost-Center", "Priority"],
    "hostname": ["a", "b.example", "c.example.com", "d-e"],
    "path": ["/a", "/b/c", "d", "e/f.json"],
}


_TEXTS = ["the-first-of-some-texts", "the-second-of-some-texts", "the-third-of-some-texts"]
_SCHEMA = config_schema()
_VARIABLES = {variable for setting in SETTINGS.values() for variable in setting.variables}


def samples(setting: Setting) -> list[Any]:
    """Values that the setting may have."""
    section = _SCHEMA["properties"][setting.section]["$ref"].rpartition("/")[2]
    kind = _SCHEMA["$defs"][section]["properties"][setting.key]
    if kind["type"] == "array":
        items = kind["items"]
        names = (
            ["ops", "team", "ada@example.com", "b"] if "pattern" in items and "format" not in items else None
        )
        each = items.get("enum") or names or _SAMPLES.get(items.get("format", "path"), _SAMPLES["path"])
        return [[each[0]], each[1:3], each[:4]]
    if kind.get("maximum") == 1:
        return [0, 0.25, 0.5, 1]
    if kind.get("maximum") == 2:
        return [1, 2]
    return (
        kind.get("enum")
        or _SAMPLES.get(kind.get("format", ""))
        or {"boolean": [True, False], "string": _TEXTS}.get(kind["type"], [1, 2, 3, 4])
    )


def text(setting: Setting, value: Any) -> str:
    """The value as an environment variable holds it."""
    if isinstance(value, list):
        return (setting.separator or "").join(value)
    return value if isinstance(value, str) else json.dumps(value)


def value_in_configuration(setting: Setting, value: Any, folder: Path = Path()) -> Any:
    """The value as the configuration holds it."""
    if isinstance(value, list):
        return tuple(value_in_configuration(setting, each, folder) for each in value)
    return folder / value if setting.holds_paths else value


_PLAIN = {name: setting for name, setting in SETTINGS.items() if setting.item is None}
"""The settings that are no lists of tables."""


@pytest.mark.parametrize("setting", _PLAIN.values(), ids=list(_PLAIN))
@effort(max_examples=effort().max_examples // 3)  # of some seventy settings each
@given(data=st.data())
def test_the_highest_source_that_gives_a_setting_wins(setting: Setting, data: st.DataObject) -> None:
    one = st.none() | st.sampled_from(samples(setting))
    flag, variable, file = data.draw(one), data.draw(one), data.draw(one)
    environ, flags, expected = {}, {}, getattr(getattr(Config(), setting.section), setting.key)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if setting.name == "listen.key":  # of no use alone
            environ["HOOKGATE_LISTEN__CERTIFICATE"] = "c.pem"
        toml, place = folder / "hookgate.toml", "default"
        toml.write_text(f"[{setting.section}]\n")
        if file is not None:
            toml.write_text(f"[{setting.section}]\n{setting.key} = {json.dumps(file)}\n")
            expected, place = value_in_configuration(setting, file, folder), f"{toml}:2"
        if variable is not None:
            expected, place = (
                value_in_configuration(setting, variable),
                data.draw(st.sampled_from(setting.variables)),
            )
            environ[place] = text(setting, variable)
            if f"{place}_FILE" not in _VARIABLES and data.draw(st.booleans()):
                place += "_FILE"
                (folder / "value").write_text(text(setting, variable) + "\n")
                environ = {**environ, place: str(folder / "value")}
                del environ[place.removesuffix("_FILE")]
        if flag is not None and setting.flag:
            flags = {setting.name: flag}
            expected, place = value_in_configuration(setting, flag), setting.flag
        effective = read_config({"config": str(toml), **flags}, environ)
    found = getattr(getattr(effective.config, setting.section), setting.key)
    assert (found.get_secret_value() if isinstance(found, SecretStr) else found) == expected
    assert effective.places.get(setting.name, "default") == place
    assert effective.places.keys() - {setting.name, "listen.certificate"} == set()


def test_an_empty_variable_gives_nothing(tmp_path: Path) -> None:
    toml = tmp_path / "hookgate.toml"
    toml.write_text('hooks.policy = ["p.json"]\n')
    config = read_config({"config": str(toml)}, {"HOOKGATE_POLICY": "", "HOOKGATE_POLICY_FILE": ""}).config
    assert config.hooks.policy == (tmp_path / "p.json",)


@pytest.mark.parametrize("said", ['["a:b", "~/c"]', '[ "a:b", "~/c" ]'])
def test_a_list_in_a_variable_may_be_json(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    config = read_config({}, {"HOOKGATE_HOOKS": said, "HOOKGATE_CONFIG": "/dev/null"}).config
    assert config.hooks.files == (Path("a:b"), Path("/home/someone/c"))


def test_names_in_a_variable_are_separated_by_commas() -> None:
    environ = {"HOOKGATE_ROUTES__UNHOOKED": "openai, live,", "HOOKGATE_CONFIG": "/dev/null"}
    assert read_config({}, environ).config.routes.unhooked == ("openai", "live")


def test_the_admin_listener_can_be_switched_off() -> None:
    environ = {"HOOKGATE_ADMIN__ADDRESS": "off", "HOOKGATE_CONFIG": "/dev/null"}
    assert read_config({}, environ).config.admin.address is None


# ---- which file


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def write(path: Path, port: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"listen.address = 'h:{port}'\n")
    return path


def test_the_file_is_the_flag_s_the_variable_s_or_the_user_s(home: Path, tmp_path: Path) -> None:
    user = write(home / ".config/hookgate/hookgate.toml", 1)
    xdg = write(tmp_path / "xdg/hookgate/hookgate.toml", 2)
    variable, flag = write(tmp_path / "variable.toml", 3), write(tmp_path / "flag.toml", 4)
    environ: dict[str, str] = {}
    assert read_config({}, environ).file == user
    assert read_config({}, {"XDG_CONFIG_HOME": "xdg"}).file == user  # a relative one counts as none
    environ["XDG_CONFIG_HOME"] = str(tmp_path / "xdg")
    assert read_config({}, environ).file == xdg
    environ["HOOKGATE_CONFIG"] = str(variable)
    assert read_config({}, environ).file == variable
    effective = read_config({"config": str(flag)}, environ)
    assert (effective.file, effective.config.listen.address) == (flag, "h:4")


def test_a_file_in_the_current_folder_is_not_read(home: Path, tmp_path: Path) -> None:
    write(tmp_path / "hookgate.toml", 1)
    write(tmp_path / "hookgate/hookgate.toml", 1)
    assert read_config({}, {}).config == Config()
