"""No test listens on a fixed port, which could be in use on another machine or by another test."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SOURCES = sorted(
    path
    for path in TESTS.rglob("*")
    if path.suffix in (".py", ".sh", ".mjs") and "node_modules" not in path.parts
)

LISTENERS = {
    *("bind", "bind_listeners", "create_server", "run_app", "serve_admin", "serve_on", "start_server"),
    *("HTTPServer", "ThreadingHTTPServer", "TCPServer", "TCPSite", "TestServer"),
}
"""Functions and classes that listen, whose port is an argument, or the second item of one."""

SETTINGS = re.compile(
    r"""(?:--listen|--admin|HOOKGATE_LISTEN|LISTEN__ADDRESS|ADMIN__ADDRESS|(?:\\n|\b)address)\b
        [\s"'=:,\\]{1,6}[\w.\[\]]*:(?P<port>[1-9]\d*)\b""",
    re.VERBOSE,
)
"""An address in a flag, a variable or the configuration."""

CHOSEN = {
    ("proxy/calls/test_agent_events.py", 8787): "only compared",
    ("proxy/cli/test_main.py", 99999): "refused: no port has this number",
    ("e2e/test_panel.py", 9787): "only shown, by a panel that listens elsewhere",
    ("proxy/admin/test_access.py", 9787): "only compared",
    ("proxy/cli/test_agents.py", 9): "asked, where nothing listens",
    ("proxy/cli/test_agents.py", 8000): "only printed",
    ("proxy/cli/test_agents.py", 8443): "only printed",
    ("proxy/cli/test_config.py", 1): "only checked and shown",
    ("proxy/config/test_errors.py", 1): "only compared",
    ("container/test_compose.py", 8787): "only compared",
    ("deploy/test_helm.py", 80): "refused by the schema of the chart",
    ("deploy/test_helm.py", 8787): "only compared",
    ("proxy/config/test_errors.py", 65536): "refused: no port has this number",
}
"""Ports that a test may name where it would listen, by file and number, each with the reason."""


def ports_in(name: str, text: str) -> Iterator[int]:
    """The ports other than 0 on which the code of a test would listen."""
    for found in SETTINGS.finditer(text):
        yield int(found["port"])
    if name.endswith(".mjs"):
        yield from map(int, re.findall(r"\.listen\(([1-9]\d*)", text))
    if name.endswith(".py"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and _name(node.func) in LISTENERS:
                yield from _ports_of(node)


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _ports_of(call: ast.Call) -> Iterator[int]:
    for argument in call.args:
        items = argument.elts if isinstance(argument, ast.Tuple) else [argument]
        for item in items:
            if isinstance(item, ast.Constant) and type(item.value) is int and item.value:
                yield item.value
    for keyword in call.keywords:
        if keyword.arg == "port" and isinstance(keyword.value, ast.Constant) and keyword.value.value:
            yield keyword.value.value


def test_no_test_listens_on_a_fixed_port() -> None:
    assert len(SOURCES) > 200
    found = {
        (str(path.relative_to(TESTS)), port)
        for path in SOURCES
        if path != Path(__file__)
        for port in ports_in(path.name, path.read_text(encoding="utf-8"))
    }
    assert found - CHOSEN.keys() == set(), "listen on port 0, or name the reason in CHOSEN"
    assert CHOSEN.keys() - found == set(), "these reasons are for nothing"


@pytest.mark.parametrize(
    "code",
    [
        "s.bind(('127.0.0.1', 8787))",
        "await asyncio.start_server(talk, '127.0.0.1', 8787)",
        "serve_on(handle, port=8787)",
        "run('serve', '--listen', '127.0.0.1:8787')",
        "run('serve', *'--admin localhost:8787'.split())",
        "env = {'HOOKGATE_LISTEN': ':8787'}",
        "toml = '[listen]\\naddress = \"127.0.0.1:8787\"'",
    ],
)
def test_a_fixed_port_is_found(code: str) -> None:
    assert list(ports_in("test_x.py", code)) == [8787]


@pytest.mark.parametrize(
    "code",
    [
        "s.bind(('127.0.0.1', 0))",
        "s.listen(16)",
        "serve_on(handle, '127.0.0.1', port)",
        "run('serve', '--listen', '127.0.0.1:0', '--upstream', 'http://127.0.0.1:8788')",
    ],
)
def test_a_free_port_and_an_address_to_connect_to_are_not(code: str) -> None:
    assert list(ports_in("test_x.py", code)) == []
