"""Problems of a configuration are reported all at once, each with its place and its remedy."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from hookgate.proxy.config import ConfigError, read_config
from hookgate.proxy.config.sources import lines_of

ProblemsOf = Callable[..., list[str]]


@pytest.fixture
def problems_of(tmp_path: Path) -> ProblemsOf:
    """The problems of a file's text, an environment and flags; the file is called F."""

    def read(text: str, environ: Mapping[str, str] | None = None, **flags: object) -> list[str]:
        toml = tmp_path / "hookgate.toml"
        toml.write_text(text)
        with pytest.raises(ConfigError) as error:
            read_config({"config": str(toml), **flags}, environ or {})
        assert str(error.value) == "\n".join(error.value.problems)
        return [problem.replace(str(toml), "F") for problem in error.value.problems]

    return read


def test_everything_is_reported_at_once_each_with_its_place(problems_of: ProblemsOf) -> None:
    text = """
[listen]
address = "localhost"

[limits]
body = "64"
bdy = 1
"""
    environ = {"HOOKGATE_LOGS__LEVEL": "loud", "HOOKGATE_UPSTREAM__GEMNI": "http://a"}
    assert problems_of(text, environ, **{"upstream.gemini": "ftp://a"}) == [
        "F:7: limits.bdy: is not known; did you mean limits.body?",
        "HOOKGATE_UPSTREAM__GEMNI: is not known; did you mean HOOKGATE_UPSTREAM__GEMINI?",
        "F:3: listen.address: must be HOST:PORT, such as 127.0.0.1:8787",
        "F:6: limits.body: must be a whole number, without quotes",
        "HOOKGATE_LOGS__LEVEL: logs.level: must be 'debug', 'info', 'warning' or 'error'",
        "--upstream: upstream.gemini: must consist only of scheme, host, port and path, "
        "such as https://generativelanguage.googleapis.com",
    ]


def test_an_upstream_without_a_scheme_is_reported(problems_of: ProblemsOf) -> None:
    [told] = problems_of("", **{"upstream.gemini": "127.0.0.1:8788"})
    assert "upstream.gemini: must begin with https:// or http://, such as " in told


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[limit]", "F:1: limit: is not known; did you mean limits?"),
        ("\nbody = 1", "F:2: body: is not known; did you mean limits.body?"),
        ("[listen]\ngemini = 'http://a'", "F:2: listen.gemini: is not known; did you mean upstream.gemini?"),
        ("zzz.q = 1", "F:1: zzz: is not known; known are listen, admin, "),
        ("listen.port = 1", "F:1: listen.port: is not known; did you mean listen.address?"),
        ("admin.port = 1", "F:1: admin.port: is not known; did you mean admin.address?"),
        ("upstream.url = 'x'", "F:1: upstream.url: is not known; did you mean upstream.gemini?"),
        ("listen.colour = 'x'", "F:1: listen.colour: is not known; known are listen.address, listen."),
        ("colour = 'x'", "F:1: colour: is not known; known are listen, admin, "),
        (
            "keys.bob.key = 'x'",
            "F:1: keys.bob.key: is not known; did you mean keys.bob.file or keys.bob.sha256?",
        ),
        ("keys.bob.owner = 'x'", "is not known; known are keys.bob.sha256, keys.bob.file, keys.bob.team"),
        ("listen = 1", "F:1: listen: must be a table; write [listen] and its keys below"),
        ("[[hooks]]", "F:1: hooks: must be a table; write [hooks] and its keys below"),
        ("listen.address = 1", "F:1: listen.address: must be a string in quotes"),
        ("listen.address = 1979-05-27", "F:1: listen.address: must be HOST:PORT, such as 127.0.0.1:8787"),
        ("[hooks.state]\nx = 1", "F:1: hooks.state: must be a string in quotes"),
        ("hooks.state = ''", "F:1: hooks.state: is empty; name a path, or leave the setting out"),
        ("hooks.policy = 'a'", "F:1: hooks.policy: must be a list in brackets"),
        ("hooks.policy = ['a', 1]", "F:1: hooks.policy[1]: must be a string in quotes"),
        ("hooks.trust_project = 'yes'", "F:1: hooks.trust_project: must be true or false, without quotes"),
        ("streams.keep_alive = true", "F:1: streams.keep_alive: must be a number, without quotes"),
        ("streams.keep_alive = 0", "F:1: streams.keep_alive: must be greater than 0"),
        ("streams.keep_alive = inf", "F:1: streams.keep_alive: must be a finite number"),
        ("streams.keep_alive = nan", "F:1: streams.keep_alive: must be a finite number"),
        ("limits.body = 1.5", "F:1: limits.body: must be a whole number"),
        ("tools.ask_again_at_most = 11", "F:1: tools.ask_again_at_most: must be at most 10"),
        ("tools.ask_again_at_most = 0", "F:1: tools.ask_again_at_most: must be at least 1"),
        ("listen.address = 'h:65536'", "F:1: listen.address: 65536 is not a port: ports are at most 65535"),
        (
            "listen.key = 'k.pem'",
            "listen.key needs listen.certificate; set listen.certificate, or remove listen.key",
        ),
        (
            "upstream.gemini = 'http://a/x/v1beta/'",
            "F:1: upstream.gemini: must not end with /v1beta: the path of each call begins with the version; "
            "write http://a/x",
        ),
        ("upstream.vertex = 'http://a/v1beta1'", "upstream.vertex: must not end with /v1beta1: "),
        ("upstream.code_assist = 'http://a/v1internal'", "must not end with /v1internal: "),
        ("a = 1\nb = = 2", "F:2:5: is not valid TOML: Invalid value"),
        ("listen = {", "is not valid TOML: "),
        ("a.b = 1\na.b = 2", "is not valid TOML: "),
        ("a = " + "[" * 5000, "is not valid TOML: "),
        ("a = " + "1" * 5000, "is not valid TOML: "),
    ],
    ids=lambda text: text[:40],
)
def test_what_can_be_wrong_in_a_file(text: str, expected: str, problems_of: ProblemsOf) -> None:
    [problem] = problems_of(text)
    assert expected in problem
    assert problem.count("\n") == 0


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        (
            {"HOOKGATE_LISTEN": "a:1", "HOOKGATE_LISTEN__ADDRESS": "a:1"},
            "HOOKGATE_LISTEN__ADDRESS: listen.address: is also set by HOOKGATE_LISTEN; remove one",
        ),
        (
            {"HOOKGATE_UPSTREAM__PROXY": "http://a", "HOOKGATE_UPSTREAM__PROXY_FILE": "/no"},
            "HOOKGATE_UPSTREAM__PROXY_FILE: upstream.proxy: "
            "is also set by HOOKGATE_UPSTREAM__PROXY; remove one",
        ),
        (
            {"HOOKGATE_LISTEN_FILE": "/no/such"},
            "HOOKGATE_LISTEN_FILE: listen.address: /no/such cannot be read: No such file or directory; "
            "check the path",
        ),
        ({"HOOKGATE_HOOKS": '["a"'}, "HOOKGATE_HOOKS: hooks.files: is not a JSON list: "),
        ({"HOOKGATE_HOOKS": "[" * 100_000}, "HOOKGATE_HOOKS: hooks.files: is not a JSON list: "),
        ({"HOOKGATE_HOOKS": "[1]"}, "HOOKGATE_HOOKS: hooks.files[0]: must be a path in quotes"),
        ({"HOOKGATE_LIMITS__BODY": "1 MiB"}, "HOOKGATE_LIMITS__BODY: limits.body: must be a whole number"),
        ({"HOOKGATE_HOOKS__TRUST_PROJECT": "maybe"}, "hooks.trust_project: must be true or false"),
        ({"HOOKGATE_STREAMS__KEEP_ALIVE": "nan"}, "streams.keep_alive: must be a finite number"),
        ({"HOOKGATE_Upstream__gemini": "x"}, "is not known; did you mean HOOKGATE_UPSTREAM__GEMINI?"),
        ({"HOOKGATE_LISTEN__PORT": "1"}, "is not known; did you mean HOOKGATE_LISTEN__ADDRESS?"),
        ({"HOOKGATE_ADMIN__COLOR": "1"}, "is not known; known are HOOKGATE_ADMIN__ADDRESS, HOOKGATE_ADMIN__"),
        ({"HOOKGATE_LOG__LEVEL": "info"}, "is not known; did you mean HOOKGATE_LOGS__LEVEL?"),
        ({"HOOKGATE_ZZZ__QQQ": "1"}, "HOOKGATE_ZZZ__QQQ: is not known; remove it"),
        ({"HOOKGATE_POLICIES": "a"}, "HOOKGATE_POLICIES: is not known; did you mean HOOKGATE_POLICY?"),
        ({"HOOKGATE_POLICY_FILES": "a"}, "is not known; did you mean HOOKGATE_POLICY?"),
        ({"HOOKGATE_POLICY_PATH": "a"}, "is not known; did you mean HOOKGATE_POLICY?"),
        ({"HOOKGATE_HOOKS_POLICY": "a"}, "is not known; did you mean HOOKGATE_HOOKS__POLICY?"),
        ({"HOOKGATE_ADMIN_TOKEN": "a"}, "is not known; did you mean HOOKGATE_ADMIN__TOKEN?"),
        ({"HOOKGATE_LOG_LEVEL": "info"}, "is not known; did you mean HOOKGATE_LOGS__LEVEL?"),
        ({"HOOKGATE_ADMIN": "off"}, "is not known; did you mean HOOKGATE_ADMIN__ADDRESS?"),
        ({"HOOKGATE_TRUST_PROJECT": "1"}, "is not known; did you mean HOOKGATE_HOOKS__TRUST_PROJECT?"),
        ({"HOOKGATE_CONFIG_FILE": "a"}, "is not known; did you mean HOOKGATE_CONFIG?"),
        ({"HOOKGATE_ROUTES__UNHOOKED": "live,x"}, "routes.unhooked[1]: must be 'interactions', 'openai'"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_can_be_wrong_in_the_environment(
    environ: dict[str, str], expected: str, problems_of: ProblemsOf
) -> None:
    [problem] = problems_of("", environ)
    assert expected in problem


def test_the_base_url_of_an_upstream_may_have_a_path_without_a_version(tmp_path: Path) -> None:
    for url in ("http://a/gemini", "http://a/v1beta/gemini", "http://a/v1x"):
        effective = read_config({"config": "/dev/null", "upstream.gemini": url}, {})
        assert effective.config.upstream.gemini == url


OF_SERVICES = [
    f"HOOKGATE_{service}{name}"
    for service in ("", "ADMIN_", "LISTEN_", "STORE_")
    for name in (
        "SERVICE_HOST",
        "SERVICE_PORT",
        "SERVICE_PORT_HTTP",
        "PORT",
        "PORT_80_TCP",
        "PORT_80_TCP_ADDR",
    )
]
"""Variables that Kubernetes sets for services."""


@pytest.mark.parametrize(
    "variable",
    [
        *OF_SERVICES,
        "HOOKGATE_RUN",
        "HOOKGATE_WORKER",
        "HOOKGATE_LAUNCHED",
        "HOOKGATE_VERSION",
        "HOOKGATE_TAG",
    ],
)
def test_variables_that_are_not_settings_are_left_alone(variable: str) -> None:
    environ = {variable: "tcp://10.0.0.1:80", "HOOKGATE_CONFIG": "/dev/null"}
    assert read_config({}, environ).places == {}


@pytest.mark.parametrize("variable", ["HOOKGATE_POLICY", "HOOKGATE_HOOKS__POLICY", "HOOKGATE_STATE"])
@pytest.mark.parametrize("content", ['{"hooks": {}}', '\ufeff{"hooks": {}}', '// ours\n{"hooks": {}}\n'])
def test_a_file_that_should_contain_a_path_is_not_taken_for_the_path(
    variable: str, content: str, tmp_path: Path, problems_of: ProblemsOf
) -> None:
    policy = tmp_path / "policy.json"
    policy.write_text(content, encoding="utf-8")
    [problem] = problems_of("", {f"{variable}_FILE": str(policy)})
    assert problem.startswith(f"{variable}_FILE: hooks.")
    remedy = f"does not contain a path; if that file itself is meant, use {variable}={policy}"
    assert problem.endswith(f": {policy} {remedy}")


@pytest.mark.parametrize(
    "content", ["/a.json:/b.json\n", '[\n"/a.json",\n"/b.json"]\n', "\ufeff/a.json:/b.json"]
)
def test_a_file_may_contain_the_paths_of_policy_files(content: str, tmp_path: Path) -> None:
    paths = tmp_path / "paths"
    paths.write_text(content, encoding="utf-8")
    environ = {"HOOKGATE_POLICY_FILE": str(paths), "HOOKGATE_CONFIG": "/dev/null"}
    assert read_config({}, environ).config.hooks.policy == (Path("/a.json"), Path("/b.json"))


@pytest.mark.parametrize(
    "proxy", ["https://u:secret@p", "http://u:secret@p/x", "u:secret@p", "http://secret@"]
)
def test_no_problem_shows_a_password(proxy: str, problems_of: ProblemsOf) -> None:
    reported = problems_of(f"upstream.proxy = '{proxy}'\nupstream.gemini = '{proxy}?'")
    assert len(reported) == 2
    assert not any("secret" in each for each in reported)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b"# caf\xe9")
    for path, reported in [
        ("/no/such.toml", "/no/such.toml: cannot be read: No such file or directory; check the path"),
        (str(tmp_path), f"{tmp_path}: is a folder; name a file in it, such as {tmp_path}/hookgate.toml"),
        (str(tmp_path / "latin.toml"), f"{tmp_path}/latin.toml: is not UTF-8; save it as UTF-8"),
    ]:
        with pytest.raises(ConfigError) as error:
            read_config({"config": path}, {})
        assert error.value.problems == [reported]


def test_a_file_from_windows_has_the_same_lines(tmp_path: Path) -> None:
    toml = tmp_path / "hookgate.toml"
    toml.write_bytes(b"\xef\xbb\xbf# caf\xc3\xa9\r\n[logs]\r\n\r\nlevel = 'debug'\r\n")
    assert read_config({"config": str(toml)}, {}).places == {"logs.level": f"{toml}:4"}


def test_lines_are_found_in_every_way_to_write_toml() -> None:
    text = '''# [no]
top.a = 1

[x]  # comment
b = """
[y]
c = 1
"""
"quoted" = [
  "[z]",
]

inline = {d = 1, e = 2}
[[x.list]]
f = 1
[[x.list]]
f = 2
["p.q".r]
g.h = 1
'''
    assert lines_of(text) == {
        ("top",): 2,
        ("top", "a"): 2,
        ("x",): 4,
        ("x", "b"): 5,
        ("x", "quoted"): 9,
        ("x", "inline"): 13,
        ("x", "inline", "d"): 13,
        ("x", "inline", "e"): 13,
        ("x", "list"): 14,
        ("x", "list", "f"): 15,
        ("x", "list", "[0]"): 14,
        ("x", "list", "[0]", "f"): 15,
        ("x", "list", "[1]"): 16,
        ("x", "list", "[1]", "f"): 17,
        ("p.q",): 18,
        ("p.q", "r"): 18,
        ("p.q", "r", "g"): 19,
        ("p.q", "r", "g", "h"): 19,
    }
