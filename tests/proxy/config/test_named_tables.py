"""`[keys.NAME]`: valid and invalid settings; no output contains a key."""

import json
from hashlib import sha256
from pathlib import Path

import jsonschema
import pytest
from generators.settings_reference import settings_reference
from pydantic import ValidationError
from support.programs.program import run

from hookgate.hooks.field_texts import field_texts
from hookgate.proxy.config import Config, ConfigError, NamedKey, read_config
from hookgate.proxy.config.catalogue import NAMED, config_schema
from hookgate.proxy.config.values import Section
from hookgate.proxy.keys.callers import KeyOwner, KeysError, load_named_keys

KEY = "AIza-canary-0815-canary-0815-canary-0815"
HASH = sha256(KEY.encode()).hexdigest()


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    return tmp_path / "hookgate.toml"


def written(path: Path, text: str) -> str:
    """The path of a file with this text."""
    path.write_text(text)
    return str(path)


def test_a_file_names_keys(toml: Path) -> None:
    toml.write_text(f"[keys.alice]\nsha256 = '{HASH.upper()}'\nteam = 'a'\n[keys.'b.c@d']\nfile = 'secret'\n")
    effective = read_config({"config": str(toml)}, {})
    assert effective.config.keys == {
        "alice": NamedKey(sha256=HASH, team="a"),
        "b.c@d": NamedKey(file=toml.parent / "secret"),
    }
    assert effective.places == {"keys.alice": f"{toml}:1", "keys.b.c@d": f"{toml}:4"}


_NO_NAME = "F:1: keys: a name is a letter or digit, then up to 31 letters, digits or . _ @ + -"
_ONE_OF = "needs exactly one of sha256 and file; `hookgate keys hash` prints a sha256"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("keys = 1", "F:1: keys: must be a table; write [keys] and its keys below"),
        (f"keys.a = '{KEY}'", "F:1: keys.a: must be a table; write [keys.a] and its keys below"),
        ("[keys.a]", f"F:1: keys.a: {_ONE_OF}"),
        (f"[keys.a]\nsha256 = '{HASH}'\nfile = 'x'", f"F:1: keys.a: {_ONE_OF}"),
        (
            f"[keys.a]\nsha256 = '{KEY}'",
            "F:1: keys.a.sha256: must be the 64 hex digits that `hookgate keys hash` prints for the key",
        ),
        (
            f"[keys.a]\nsha256 = '{HASH}  -'",
            "F:1: keys.a.sha256: must be the 64 hex digits that `hookgate keys hash` prints for the key",
        ),
        ("[keys.a]\nfile = ''", "F:1: keys.a.file: is empty; name a path, or leave the setting out"),
        ("[keys.a]\nsha265 = 'x'", "F:2: keys.a.sha265: is not known; did you mean keys.a.sha256?"),
        (f"[keys.a]\nkey = '{KEY}'", "F:2: keys.a.key: is not known; "),
        (
            f"[keys.a]\nsha256 = '{HASH}'\nteam = 'x/y'",
            "F:1: keys.a.team: a name is a letter or digit, then up to 31",
        ),
        (f"[keys.{KEY}]\nteam = 'x'", _NO_NAME),
        ("[keys.'../x']", _NO_NAME),
        (
            "[keys.0123456789abcdef01234567]",
            "F:1: keys: this name is reserved for keys without a name; choose another",
        ),
        ("[keys.no-key]", "F:1: keys: this name is reserved for keys without a name; choose another"),
        (
            "clients.unknown_keys = 'deny'",
            "F:1: clients.unknown_keys: must be 'allow' or 'refuse'",
        ),
    ],
    ids=[
        "no table",
        "no table in it",
        "neither",
        "both",
        "key for hash",
        "line of sha256sum",
        "empty path",
        "misspelt",
        "key",
        "team",
        "key for name",
        "path for name",
        "hash for name",
        "no-key for name",
        "unknown_keys",
    ],
)
def test_what_can_be_wrong(text: str, expected: str, toml: Path) -> None:
    toml.write_text(text)
    with pytest.raises(ConfigError) as error:
        read_config({"config": str(toml)}, {})
    [problem] = error.value.problems
    assert problem.replace(str(toml), "F").startswith(expected)
    assert "canary" not in problem


def test_a_variable_cannot_name_a_key(toml: Path) -> None:
    toml.write_text("")
    with pytest.raises(ConfigError) as error:
        read_config({"config": str(toml)}, {"HOOKGATE_KEYS__ALICE__SHA256": HASH})
    assert error.value.problems == [
        "HOOKGATE_KEYS__ALICE__SHA256: is not known; write [keys.NAME] in hookgate.toml instead"
    ]


@pytest.mark.parametrize("content", [KEY, KEY + "\n", KEY + "\r\n"], ids=["bare", "line", "windows"])
def test_the_key_in_a_file_is_found(content: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(content.encode())
    assert load_named_keys({"ci": NamedKey(file=tmp_path / "key", team="t")}) == {HASH: KeyOwner("ci", "t")}


async def test_check_tells_what_is_wrong_with_the_files_of_keys(toml: Path) -> None:
    for name, content in {"same": KEY, "two": f"{KEY}\n{KEY}\n", "none": "\n"}.items():
        written(toml.parent / name, content)
    tables = [f"[keys.{name}]\nfile = '{name}'\n" for name in ("missing", "same", "two", "none")]
    text = f"[keys.alice]\nsha256 = '{HASH}'\n" + "".join(tables)
    ended = await run("config", "check", "--config", written(toml, text))
    assert ended.code == 1
    alone = "contains no key, or more than one; it must contain one key on one line"
    folder = toml.parent
    missing = f"{folder}/missing: does not exist; write the secret into it, or check the path"
    assert ended.err.removeprefix("hookgate: ").splitlines() == [
        f"{toml}:3: keys.missing.file: {missing}",
        f"{toml}:5: keys.same: is the same key as keys.alice; remove one",
        f"{toml}:7: keys.two.file: {folder}/two: {alone}",
        f"{toml}:9: keys.none.file: {folder}/none: {alone}",
    ]


async def test_a_gateway_does_not_start_without_the_file_of_a_key(toml: Path) -> None:
    text = "admin.address = 'off'\nlisten.address = '127.0.0.1:0'\nkeys.ci.file = '/no/such'\n"
    ended = await run("serve", "--config", written(toml, text))
    problem = "keys.ci.file: /no/such: does not exist; write the secret into it, or check the path"
    assert (ended.code, ended.err.splitlines()[-1]) == (1, f"hookgate: {toml}:3: {problem}")


async def test_show_tells_names_and_no_key(toml: Path) -> None:
    written(toml.parent / "key", KEY)
    written(toml, f"[keys.alice]\nsha256 = '{HASH}'\nteam = 'search'\n[keys.ci]\nfile = 'key'\n")
    ended = await run("config", "show", "--json", "--config", str(toml))
    reported = json.loads(ended.out)
    assert reported["keys.alice.team"] == {"value": "search", "source": f"{toml}:1"}
    assert reported["keys.ci.file"] == {"value": str(toml.parent / "key"), "source": f"{toml}:4"}
    table = await run("config", "show", "--config", str(toml))
    assert "keys.alice.sha256" in table.out
    assert "canary" not in ended.out + table.out


def test_no_text_of_the_configuration_tells_a_key(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(KEY)
    config = Config(keys={"alice": NamedKey(sha256=HASH), "ci": NamedKey(file=tmp_path / "key")})
    with pytest.raises(KeysError) as same:
        load_named_keys(config.keys)
    with pytest.raises(ValidationError) as wrong:
        NamedKey(sha256=KEY)
    message = [
        repr(config),
        str(same.value),
        str(wrong.value),
        repr(load_named_keys({"a": NamedKey(sha256=HASH)})),
    ]
    assert not any("canary" in each for each in message)


def test_the_schema_takes_what_a_file_may_say() -> None:
    validator = jsonschema.Draft202012Validator(config_schema())
    assert validator.is_valid({"keys": {"alice": {"sha256": HASH, "team": "a"}, "ci": {"file": "key"}}})
    bad = [{"alice": {"sha256": KEY}}, {"alice": {"sha265": HASH}}, {"a/b": {"file": "key"}}, {"alice": HASH}]
    assert not any(validator.is_valid({"keys": keys}) for keys in bad)


@pytest.mark.parametrize("section", NAMED)
def test_tables_with_names_are_documented(section: str) -> None:
    kind = NAMED[section]
    assert issubclass(kind, Section)
    texts = field_texts(kind)
    assert all(texts[name].endswith(".") for name in kind.model_fields)
    assert f"## [{section}.NAME]\n\n{(kind.__doc__ or '').split('.', maxsplit=1)[0]}" in settings_reference()
